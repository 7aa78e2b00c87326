// Loads the bundled Mermaid when a page draws its first diagram. The theme uses the global `mermaid`
// if there is one; without this file it would fetch Mermaid from another site.
(() => {
  const source = new URL("mermaid.min.js", document.currentScript.src);
  let settings = {};
  let loading;

  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = () => {
        globalThis.mermaid.initialize(settings);
        resolve(globalThis.mermaid);
      };
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  }

  globalThis.mermaid = {
    initialize: (given) => {
      settings = given;
    },
    render: async (...diagram) => (await load()).render(...diagram),
  };
})();
