import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Snippet } from "@/parts/feedback";

/** Shows a new secret, which the server returns only once. */
export function SecretShown({ text, onClose }: { text: string; onClose: () => void }) {
  return (
    <Dialog
      title="The secret that signs its messages"
      onClose={onClose}
      footer={
        <Button look="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <p className="text-muted">
        It is shown this once. The receiver needs it to make sure that a message is ours.
      </p>
      <Snippet text={text} />
    </Dialog>
  );
}
