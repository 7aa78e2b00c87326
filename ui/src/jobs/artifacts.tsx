/** Files of a job: its artifacts, and payloads and results too large for a row. */

import { Download } from "lucide-react";
import { save } from "@/api/client";
import type { Job } from "@/api/schema";
import { Button } from "@/parts/button";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

type Part = "payload" | "result";

export function ArtifactButton({ job, of }: { job: Job; of: Part }) {
  const { may } = useSession();
  if (!may("jobs", "write") || !hasArtifact(of === "payload" ? job.payload : job.result))
    return null;
  return (
    <Button
      look="quiet"
      icon={Download}
      onClick={() => void save(`/jobs/${job.id}/artifact?of=${of}&proxied=true`).catch(toastError)}
    >
      Download
    </Button>
  );
}

/** Whether the server returned a marker in place of the document, or a result that names a file. */
function hasArtifact(document: unknown): boolean {
  if (document === null || typeof document !== "object") return false;
  const { $artifact: marker, artifact } = document as Record<string, unknown>;
  return marker !== undefined || (typeof artifact === "string" && artifact.startsWith("artifact:"));
}
