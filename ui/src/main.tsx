import "@/style.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { client } from "@/api/queries";
import { Toasts } from "@/parts/toasts";
import { router } from "@/router";

const element = document.getElementById("root");
if (element === null) throw new Error("the page has no element #root");

createRoot(element).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
      <Toasts />
    </QueryClientProvider>
  </StrictMode>,
);
