/** One input with completion for all filters. The filter is stored in the URL. */

import { useQuery } from "@tanstack/react-query";
import { Search, X } from "lucide-react";
import { useEffect, useId, useState } from "react";
import { definitions, queues } from "@/api/queries";
import { completions, formatFilter, type JobFilter, parseFilter } from "@/jobs/filter";
import { Button } from "@/parts/button";

export function FilterBox({
  filter,
  onFilter,
  onJob,
}: {
  filter: JobFilter;
  onFilter: (filter: JobFilter) => void;
  onJob: (id: string) => void;
}) {
  const listId = useId();
  const said = formatFilter(filter);
  const [text, setText] = useState(said);
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const known = useQuery(definitions());
  const named = useQuery(queues());
  useEffect(() => setText(said), [said]);

  const { unknown } = parseFilter(text);
  const options = completions(text, {
    definitions: known.data?.items.map((each) => each.key) ?? [],
    queues: named.data?.items.map((each) => each.name) ?? [],
  });

  function apply(next: string) {
    if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(next.trim())) onJob(next.trim());
    else onFilter(parseFilter(next).filter);
    setOpen(false);
  }
  function take(option: string) {
    setText(option);
    setAt(-1);
    if (!option.endsWith(":")) apply(option);
  }

  return (
    <div className="relative min-w-0 flex-1">
      <Search
        size={14}
        aria-hidden
        className="pointer-events-none absolute top-2.5 left-3 text-faint"
      />
      <input
        data-filter
        role="combobox"
        aria-label="Filter"
        aria-expanded={isOpen && options.length > 0}
        aria-controls={listId}
        aria-autocomplete="list"
        aria-activedescendant={at >= 0 ? `${listId}-${at}` : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder="state:dead def:send_welcome queue:mail tag:… after:1h, or a job ID"
        value={text}
        onFocus={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          if (text !== said) apply(text);
        }}
        onChange={(event) => {
          setText(event.target.value);
          setOpen(true);
          setAt(-1);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            const step = event.key === "ArrowDown" ? 1 : -1;
            setAt((at + step + options.length) % Math.max(1, options.length));
          } else if (event.key === "Tab" && isOpen && at >= 0) {
            event.preventDefault();
            take(options[at] ?? text);
          } else if (event.key === "Enter") {
            event.preventDefault();
            const option = options[at];
            if (option !== undefined) take(option);
            else apply(text);
          } else if (event.key === "Escape") {
            setText(said);
            event.currentTarget.blur();
          }
        }}
        className="h-9 w-full rounded-lg border border-line bg-surface pr-9 pl-9 font-mono text-xs hover:border-strong focus:border-accent"
      />
      {text !== "" && (
        <Button
          look="quiet"
          icon={X}
          label="Clear filter"
          className="absolute top-1 right-1"
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => {
            setText("");
            onFilter({});
          }}
        />
      )}
      {unknown.length > 0 && !isOpen && (
        <p className="mt-1 text-warn text-xs">
          {unknown.length === 1 ? "Unknown filter" : "Unknown filters"}:{" "}
          <code className="font-mono">{unknown.join(" ")}</code>
        </p>
      )}
      <div
        id={listId}
        role="listbox"
        aria-label="Completions"
        hidden={!isOpen || options.length === 0}
        className="absolute z-30 mt-1 max-h-80 w-full max-w-lg overflow-y-auto rounded-lg border border-line bg-surface p-1 shadow-float"
      >
        {options.map((option, index) => (
          <div
            key={option}
            id={`${listId}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onMouseDown={(event) => {
              event.preventDefault();
              take(option);
            }}
            className={`cursor-pointer rounded px-2 py-1 font-mono text-xs ${index === at ? "bg-hover" : "hover:bg-hover"}`}
          >
            {option}
          </div>
        ))}
      </div>
    </div>
  );
}
