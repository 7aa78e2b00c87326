/**
 * The entry point for browser bundles. It throws, because the package needs database credentials.
 */

throw new Error(
  "@jobforge/sdk runs on servers only, because it connects to your database. In a browser, call" +
    " your server.",
);
