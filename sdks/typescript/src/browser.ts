/** What a bundle for browsers gets instead of the package: it holds database credentials. */

throw new Error(
  "@jobforge/sdk is for servers: it talks to your database. In a browser call your own back end.",
);
