/** A confirmation dialog, which also shows why the action failed. */

import { type ReactNode, useState } from "react";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { FormError } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";

interface Props {
  title: string;
  children: ReactNode;
  verb: string;
  /** The label of the button that closes the dialog (default: Cancel). */
  dismiss?: string | undefined;
  isDangerous?: boolean;
  isReady?: boolean;
  /** Text that the user must type to confirm, for actions on many items. */
  typed?: string | undefined;
  act: () => Promise<unknown>;
  onClose: () => void;
}

export function Confirm({
  title,
  children,
  verb,
  dismiss = "Cancel",
  isDangerous = false,
  isReady = true,
  typed,
  act,
  onClose,
}: Props) {
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [text, setText] = useState("");
  const isAllowed =
    isReady && !isBusy && (typed === undefined || text.replace(/\D/g, "") === typed);

  async function submit() {
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  }

  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (isAllowed) void submit();
        }}
      >
        {children}
        {typed !== undefined && (
          <Field label={`Type ${typed} to confirm`}>
            {(id) => (
              <Input
                id={id}
                inputMode="numeric"
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            )}
          </Field>
        )}
        <FormError error={error} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{dismiss}</Button>
          <Button type="submit" look={isDangerous ? "danger" : "primary"} disabled={!isAllowed}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
