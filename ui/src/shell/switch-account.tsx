/** Asks before the ticket of a link replaces the current session. */

import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { routerBase } from "@/config";
import { Button } from "@/parts/button";
import { FormError } from "@/parts/feedback";
import { useTitle } from "@/parts/page";
import { offered, setActing, signIn } from "@/session";
import { Logo } from "@/shell/logo";
import { safeReturnPath } from "@/shell/sign-in";

export function Switch() {
  useTitle("Switch session");
  const { back } = useSearch({ strict: false }) as { back?: string };
  const offer = offered.use();
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const goBack = () => location.assign(routerBase + safeReturnPath(back));

  async function replace(ticket: string) {
    setBusy(true);
    try {
      await signIn({ ticket });
      setActing(true);
      goBack();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  }

  return (
    <main className="flex min-h-dvh items-center justify-center p-4">
      <div className="flex w-full max-w-sm flex-col gap-4 rounded-xl border border-line bg-surface p-6">
        <div className="flex items-center gap-2.5">
          <Logo />
          <h1 className="font-semibold text-lg">Switch session?</h1>
        </div>
        {offer === null ? (
          <p className="text-muted">The link has already been used or has expired.</p>
        ) : (
          <p className="text-muted">
            You are signed in as <code className="font-mono">{offer.actor}</code>. The link that you
            opened replaces your session. Switch only if you opened the link on purpose.
          </p>
        )}
        <FormError error={error} />
        <div className="flex justify-end gap-2">
          <Button look={offer === null ? "primary" : "plain"} autoFocus onClick={goBack}>
            {offer === null ? "Continue" : "Keep my session"}
          </Button>
          {offer !== null && (
            <Button look="primary" disabled={isBusy} onClick={() => void replace(offer.ticket)}>
              Switch session
            </Button>
          )}
        </div>
      </div>
    </main>
  );
}
