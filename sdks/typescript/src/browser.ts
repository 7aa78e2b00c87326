/**
 * The entry point for browser bundles. It throws, because the package needs database credentials.
 */

throw new Error(
  "@jobforge/sdk is for servers: it talks to your database. In a browser call your own back end.",
);
