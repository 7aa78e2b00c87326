import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Snippet } from "@/parts/feedback";

/** Shows a new secret, which the server returns only once. */
export function SecretShown({ text, onClose }: { text: string; onClose: () => void }) {
  return (
    <Dialog
      title="Signing secret"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I've saved it
        </Button>
      }
    >
      <p className="text-muted">
        Copy the secret now. You won't be able to see it again. The receiver needs it to verify
        messages.
      </p>
      <Snippet text={text} />
    </Dialog>
  );
}
