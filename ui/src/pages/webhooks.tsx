/** Where your application is told what became of jobs. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { webhooks } from "@/api/queries";
import type { Webhook } from "@/api/schema";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";
import { EditWebhook, SecretDialog } from "@/webhooks/edit";

const COLUMNS: Column<Webhook>[] = [
  {
    title: "Address",
    isMain: true,
    cell: (row) => (
      <span className="flex min-w-0 flex-col">
        <Link
          to="/webhooks/$id"
          params={{ id: row.id }}
          className="truncate font-medium hover:text-accent"
        >
          {row.url}
        </Link>
        {row.description && <span className="truncate text-muted text-xs">{row.description}</span>}
      </span>
    ),
  },
  { title: "Standing", cell: (row) => <Standing row={row} /> },
  { title: "Told of", isWide: true, cell: (row) => row.events.join(", ") },
  {
    title: "Definitions",
    isWide: true,
    cell: (row) => (
      <span className="block max-w-48 truncate">{row.definitions?.join(", ") ?? "all"}</span>
    ),
  },
  { title: "Since", isWide: true, cell: (row) => <Ago at={row.created_at} /> },
];

export function Page() {
  const { may } = useSession();
  const navigate = useNavigate();
  const query = useQuery({ ...webhooks(), refetchInterval: 5_000 });
  const [isNew, setNew] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <Frame
      title="Webhooks"
      lead="Where your application is told what became of jobs. Signed, retried, and kept for you to look at."
      actions={
        may("webhooks", "write") && (
          <Button icon={Plus} onClick={() => setNew(true)}>
            New webhook
          </Button>
        )
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No webhooks yet">
          Give an address, and it is told when jobs start, succeed, fail or die.
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Webhooks"
            columns={COLUMNS}
            rows={query.data.items}
            idOf={(row) => row.id}
            isDim={(row) => !row.enabled}
            onOpen={(row) => void navigate({ to: "/webhooks/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
      {isNew && <EditWebhook webhook={null} onClose={() => setNew(false)} onSecret={setSecret} />}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </Frame>
  );
}

export function Standing({ row }: { row: Webhook }) {
  if (!row.enabled) {
    return (
      <span className="text-faint" title={row.disabled_reason ?? undefined}>
        Off
      </span>
    );
  }
  if (row.failing_since) {
    return (
      <span className="text-bad">
        Failing since <Ago at={row.failing_since} />
      </span>
    );
  }
  return <span className="text-ok">On</span>;
}
