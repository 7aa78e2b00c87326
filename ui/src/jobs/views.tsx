/** Saved views of the job list, stored in this browser for this tenant. */

import { useNavigate } from "@tanstack/react-router";
import { Bookmark, BookmarkPlus, Trash2 } from "lucide-react";
import { useState } from "react";
import { routerBase } from "@/config";
import { formatFilter, type JobFilter } from "@/jobs/filter";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { Field, Input } from "@/parts/form";
import { Menu } from "@/parts/menu";
import { createStore } from "@/store";

interface View {
  name: string;
  filter: JobFilter;
}

const KEY = `jobforge.views:${routerBase}`;

const views = createStore<View[]>(JSON.parse(localStorage.getItem(KEY) ?? "[]") as View[]);

function saveViews(next: View[]): void {
  localStorage.setItem(KEY, JSON.stringify(next));
  views.set(next);
}

export function Views({ filter }: { filter: JobFilter }) {
  const navigate = useNavigate();
  const kept = views.use();
  const [isNaming, setNaming] = useState(false);
  const current = kept.find((each) => formatFilter(each.filter) === formatFilter(filter));
  return (
    <>
      <Menu
        label="Saved views"
        trigger={(props) => (
          <Button look="quiet" icon={Bookmark} {...props}>
            {current?.name ?? "Views"}
          </Button>
        )}
        items={[
          ...kept.map((view) => ({
            label: view.name,
            act: () => void navigate({ to: "/jobs", search: { ...view.filter } }),
          })),
          current
            ? {
                label: `Delete ${current.name}`,
                icon: Trash2,
                act: () => saveViews(kept.filter((each) => each !== current)),
              }
            : { label: "Save this view…", icon: BookmarkPlus, act: () => setNaming(true) },
        ]}
      />
      {isNaming && (
        <NameDialog
          filter={filter}
          onClose={() => setNaming(false)}
          onName={(name) =>
            saveViews([...kept.filter((each) => each.name !== name), { name, filter }])
          }
        />
      )}
    </>
  );
}

function NameDialog({
  filter,
  onName,
  onClose,
}: {
  filter: JobFilter;
  onName: (name: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState("");
  return (
    <Dialog title="Save view" onClose={onClose} width="max-w-sm">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          onName(name.trim());
          onClose();
        }}
      >
        <Field
          label="Name"
          hint={
            <>
              Shows <code className="font-mono">{formatFilter(filter) || "all jobs"}</code>. This
              browser stores the view. To share a view, copy its link.
            </>
          }
        >
          {(id) => <Input id={id} value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={name.trim() === ""}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
