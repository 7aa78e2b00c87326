/** Reads server-sent events from a response, because EventSource cannot send headers. */

export interface ServerEvent {
  name: string;
  data: string;
  id: string | null;
}

/**
 * Yield the events. Comments become events without a name; they show that the connection is alive.
 */
export async function* read(answer: Response): AsyncGenerator<ServerEvent> {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) yield eventOf(block);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function eventOf(block: string): ServerEvent {
  const found: ServerEvent = { name: "", data: "", id: null };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) found.name = line.slice(7);
    else if (line.startsWith("data: ")) found.data += line.slice(6);
    else if (line.startsWith("id: ")) found.id = line.slice(4);
  }
  return found;
}
