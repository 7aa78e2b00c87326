/** A small bar chart for table rows. */
export function Sparkline({
  values,
  label,
  color,
}: {
  values: number[];
  label: string;
  color: string;
}) {
  const most = Math.max(1, ...values);
  const bars = values
    .map((value, index) =>
      value === 0 ? "" : `M${index * 4 + 1.5} 20V${20 - Math.max(3, (19 * value) / most)}`,
    )
    .join("");
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${values.length * 4 - 1} 20`}
      className={`h-5 w-24 shrink-0 ${color}`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      <path d={`M0 19.5H${values.length * 4 - 1}`} className="stroke-line" strokeWidth={1} />
      <path d={bars} stroke="currentColor" strokeWidth={3} />
    </svg>
  );
}
