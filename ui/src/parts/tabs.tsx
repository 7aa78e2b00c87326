/** Views of one thing, by name; which one is shown stands in the address. */

export function Tabs({
  label,
  tabs,
  active,
  onChoose,
}: {
  label: string;
  tabs: { name: string; label: string }[];
  active: string;
  onChoose: (name: string) => void;
}) {
  return (
    <nav aria-label={label}>
      <ul className="flex gap-1 border-line border-b">
        {tabs.map((tab) => (
          <li key={tab.name}>
            <button
              type="button"
              aria-current={tab.name === active ? "page" : undefined}
              onClick={() => onChoose(tab.name)}
              className={`-mb-px h-9 border-b-2 px-2.5 ${tab.name === active ? "border-accent font-medium" : "border-transparent text-muted hover:text-text"}`}
            >
              {tab.label}
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}
