/** A dialog based on the browser's <dialog> element, which traps the focus and closes on Escape. */

import { X } from "lucide-react";
import { type ReactNode, useId, useLayoutEffect, useRef } from "react";
import { Button } from "@/parts/button";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  width?: string;
}

export function Dialog({ title, onClose, children, footer, width = "max-w-lg" }: Props) {
  const titleId = useId();
  return (
    <Modal
      onClose={onClose}
      labelledBy={titleId}
      className={`w-[calc(100%-2rem)] rounded-xl border border-line bg-surface p-0 shadow-float ${width}`}
    >
      <header className="flex items-center justify-between gap-4 border-line border-b py-2.5 pr-2.5 pl-4">
        <h2 id={titleId} className="font-semibold text-base">
          {title}
        </h2>
        <Button look="quiet" icon={X} label="Close" onClick={onClose} />
      </header>
      <div className="max-h-[70dvh] overflow-y-auto p-4">{children}</div>
      {footer && (
        <footer className="flex flex-wrap items-center justify-end gap-2 border-line border-t px-4 py-3">
          {footer}
        </footer>
      )}
    </Modal>
  );
}

interface ModalProps {
  onClose: () => void;
  children: ReactNode;
  className: string;
  labelledBy?: string;
  label?: string;
}

export function Modal({ onClose, children, className, labelledBy, label }: ModalProps) {
  const element = useRef<HTMLDialogElement>(null);
  const isPressedOutside = useRef(false);
  // Close before the element is removed; only then does the browser restore the focus.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog already
    <dialog
      ref={element}
      aria-labelledby={labelledBy}
      aria-label={label}
      className={className}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onPointerDown={(event) => {
        isPressedOutside.current = event.target === event.currentTarget;
      }}
      onClick={(event) => {
        // A press inside and release outside selects text and must not close the dialog.
        if (isPressedOutside.current && event.target === event.currentTarget) onClose();
      }}
    >
      {children}
    </dialog>
  );
}
