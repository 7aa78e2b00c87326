/** One webhook: what was sent, what came back, and sending it again. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ChevronLeft, KeyRound, Pencil, RotateCcw, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, deliveries, webhook as webhookQuery } from "@/api/queries";
import type { Delivery, Webhook } from "@/api/schema";
import { Standing } from "@/pages/webhooks";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Field, Input } from "@/parts/form";
import { Panel, useTitle } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { EditWebhook, SecretDialog } from "@/webhooks/edit";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(webhookQuery(id));
  useTitle(query.data?.url ?? "Webhook");
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View webhook={query.data} />;
}

function View({ webhook }: { webhook: Webhook }) {
  const { may } = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"edit" | "rotate" | "delete" | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [hours, setHours] = useState("24");
  const path = { endpoint_id: webhook.id };
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <Link
            to="/webhooks"
            className="mb-1 inline-flex items-center gap-0.5 text-faint text-xs hover:text-text"
          >
            <ChevronLeft size={12} aria-hidden />
            Webhooks
          </Link>
          <h1 className="break-all font-semibold text-lg leading-7 tracking-tight">
            {webhook.url}
          </h1>
          <p className="text-muted">
            <Standing row={webhook} /> · told of {webhook.events.join(", ")}
            {webhook.disabled_reason && ` · ${webhook.disabled_reason}`}
            {webhook.previous_secret_until && (
              <>
                {" "}
                · the old secret ends <Ago at={webhook.previous_secret_until} />
              </>
            )}
          </p>
        </div>
        {may("webhooks", "write") && (
          <div className="flex flex-wrap gap-2">
            <Button icon={Send} onClick={() => void test(webhook.id)}>
              Send a test
            </Button>
            <Button icon={KeyRound} onClick={() => setOpen("rotate")}>
              Rotate the secret
            </Button>
            <Button icon={Pencil} onClick={() => setOpen("edit")}>
              Change
            </Button>
            <Button look="danger" icon={Trash2} onClick={() => setOpen("delete")}>
              Delete
            </Button>
          </div>
        )}
      </header>
      <Deliveries id={webhook.id} />
      {open === "edit" && (
        <EditWebhook webhook={webhook} onClose={() => setOpen(null)} onSecret={setSecret} />
      )}
      {open === "rotate" && (
        <Confirm
          title="Rotate the secret"
          verb="Make a new one"
          onClose={() => setOpen(null)}
          act={async () => {
            const answer = await call("post", "/api/v1/webhooks/{endpoint_id}/rotate", {
              path,
              body: { overlap_s: Number(hours || 0) * 3600 },
            });
            await client.invalidateQueries({ queryKey: ["webhook", webhook.id] });
            setSecret(answer.secret);
          }}
        >
          <Field label="Hours for which both secrets sign">
            {(id) => (
              <Input
                id={id}
                type="number"
                min={0}
                value={hours}
                onChange={(e) => setHours(e.target.value)}
              />
            )}
          </Field>
        </Confirm>
      )}
      {open === "delete" && (
        <Confirm
          title="Delete this webhook?"
          verb="Delete it"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("delete", "/api/v1/webhooks/{endpoint_id}", { path });
            await client.invalidateQueries({ queryKey: ["webhooks"] });
            void navigate({ to: "/webhooks" });
          }}
        >
          <p className="text-muted">
            Nothing more is sent to it, and what waits is not sent either.
          </p>
        </Confirm>
      )}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </div>
  );
}

const COLOURS: Record<string, string> = {
  delivered: "text-ok",
  failed: "text-bad",
  pending: "text-run",
};

function Deliveries({ id }: { id: string }) {
  const { may } = useSession();
  const query = useQuery(deliveries(id));
  const columns: Column<Delivery>[] = [
    { title: "When", cell: (row) => <Ago at={row.created_at} /> },
    {
      title: "State",
      cell: (row) => <span className={`font-medium ${COLOURS[row.state] ?? ""}`}>{row.state}</span>,
    },
    { title: "Event", cell: (row) => row.event },
    {
      title: "What came back",
      isMain: true,
      cell: (row) => (
        <span className="block truncate" title={row.response ?? row.error ?? undefined}>
          {row.status !== null && <span className="num font-medium">{row.status} </span>}
          <span className="text-muted">{row.error ?? row.response ?? ""}</span>
        </span>
      ),
    },
    { title: "Tries", isWide: true, align: "right", cell: (row) => row.attempts },
    {
      title: "About",
      isWide: true,
      cell: (row) =>
        row.subject_id ? (
          <Link
            to="/jobs/$id"
            params={{ id: row.subject_id }}
            className="text-accent hover:underline"
          >
            <Id id={row.subject_id} />
          </Link>
        ) : (
          "a test"
        ),
    },
    {
      title: "Actions",
      cell: (row) =>
        may("webhooks", "write") && (
          <Button
            look="quiet"
            icon={RotateCcw}
            label="Send it again"
            onClick={() => void redeliver(id, row.id)}
          />
        ),
    },
  ];
  return (
    <Panel title="What was sent">
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="Nothing was sent yet">Send a test to see whether it arrives.</Empty>
      ) : (
        <Table
          label="Deliveries"
          columns={columns}
          rows={query.data.items}
          idOf={(row) => row.id}
        />
      )}
    </Panel>
  );
}

async function test(id: string): Promise<void> {
  try {
    await call("post", "/api/v1/webhooks/{endpoint_id}/test", { path: { endpoint_id: id } });
    toast("A test is on its way.");
    await client.invalidateQueries({ queryKey: ["webhook", id, "deliveries"] });
  } catch (error) {
    toastError(error);
  }
}

async function redeliver(id: string, delivery: string): Promise<void> {
  try {
    const path = { endpoint_id: id, delivery_id: delivery };
    await call("post", "/api/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver", {
      path,
    });
    toast("It is sent again.");
    await client.invalidateQueries({ queryKey: ["webhook", id, "deliveries"] });
  } catch (error) {
    toastError(error);
  }
}
