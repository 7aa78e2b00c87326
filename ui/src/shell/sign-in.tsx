/** Exchanges an API key for a session, then returns to the requested page. */

import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Problem } from "@/api/client";
import { config, routerBase } from "@/config";
import { Button } from "@/parts/button";
import { FormError } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";
import { useTitle } from "@/parts/page";
import { signIn } from "@/session";
import { Logo } from "@/shell/logo";

export function SignIn() {
  useTitle("Sign in");
  const { back } = useSearch({ strict: false }) as { back?: string };
  const [key, setKey] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);

  async function submit() {
    setBusy(true);
    setError(null);
    try {
      await signIn({ key: key.trim() });
      location.assign(routerBase + safeReturnPath(back));
    } catch (caught) {
      setError(isRejected(caught) ? new Error("This API key is not valid.") : caught);
      setBusy(false);
    }
  }

  return (
    <main className="flex min-h-dvh items-center justify-center p-4">
      <form
        className="flex w-full max-w-sm flex-col gap-4 rounded-xl border border-line bg-surface p-6"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div className="flex items-center gap-2.5">
          <Logo />
          <h1 className="font-semibold text-lg">Sign in to JobForge</h1>
        </div>
        {back && <p className="text-muted">After you sign in, the requested page opens.</p>}
        <Field
          label="API key"
          hint="The key is exchanged for a cookie that scripts cannot read. The dashboard does not store the key."
        >
          {(id) => (
            <Input
              id={id}
              type="password"
              name="key"
              autoFocus
              placeholder="jf_…"
              value={key}
              onChange={(event) => setKey(event.target.value)}
              className="font-mono"
            />
          )}
        </Field>
        <FormError error={error} />
        <Button
          type="submit"
          look="primary"
          className="h-9 justify-center"
          disabled={isBusy || key === ""}
        >
          Sign in
        </Button>
        <details className="text-muted text-xs">
          <summary>Where do I get a key?</summary>
          <p className="mt-2">
            A tenant admin creates keys on the Settings page, and an operator on the command line.{" "}
            <code className="font-mono">jobforge dev</code> prints a link that signs you in.
          </p>
          <pre className="mt-2 overflow-x-auto rounded bg-raised p-2 font-mono">
            jobforge keys create me --tenant acme
          </pre>
        </details>
        <p className="text-faint text-xs">JobForge {config.version}</p>
      </form>
    </main>
  );
}

function isRejected(error: unknown): boolean {
  return error instanceof Problem && error.status === 401;
}

/** Accept only paths on this server, to prevent open redirects. */
export function safeReturnPath(back: string | undefined): string {
  return back?.startsWith("/") && !back.startsWith("//") ? back : "/";
}
