interface Props {
  isOn: boolean;
  label: string;
  onChange: (isOn: boolean) => void;
}

/** A toggle that takes effect at once. */
export function Switch({ isOn, label, onChange }: Props) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={isOn}
      aria-label={label}
      title={label}
      onClick={() => onChange(!isOn)}
      className={`inline-flex h-[18px] w-8 shrink-0 align-middle items-center rounded-full border p-px transition-colors ${isOn ? "border-accent bg-accent" : "border-strong bg-raised"}`}
    >
      <span
        className={`size-3.5 rounded-full transition-transform ${isOn ? "translate-x-3.5 bg-on-accent" : "bg-faint"}`}
      />
    </button>
  );
}
