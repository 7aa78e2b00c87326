/** Creates a trigger. Parameters in the URL prefill the form. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { Problem } from "@/api/client";
import { Detail } from "@/parts/detail";
import { Failure } from "@/parts/feedback";
import { toast } from "@/parts/toasts";
import { useSession } from "@/session";
import { newDraft } from "@/triggers/draft";
import { Editor } from "@/triggers/editor";

export function Page() {
  const search = useSearch({ strict: false }) as {
    type?: string;
    event?: string;
    definition?: string;
  };
  const navigate = useNavigate();
  const { may } = useSession();
  if (!may("triggers", "write")) {
    return (
      <Failure
        error={
          new Problem(
            403,
            {
              detail: "Your key is read-only. Sign in with a tenant admin key to create triggers.",
            },
            null,
          )
        }
      />
    );
  }
  return (
    <Detail back={{ to: "/triggers", label: "Triggers" }} title="New trigger">
      <Editor
        trigger={null}
        start={newDraft(search)}
        onCancel={() => void navigate({ to: "/triggers" })}
        onSaved={(id) => {
          toast("Trigger created.");
          void navigate({ to: "/triggers/$id", params: { id } });
        }}
      />
    </Detail>
  );
}
