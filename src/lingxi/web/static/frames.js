// Server-sent events out of a fetched body. Unlike EventSource this shows the status of a refusal, and heartbeats, whose absence
// tells that the connection is dead.
export async function* readFrames(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    text = (text + value).replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const frame = parse(block);
      if (frame) yield frame;
    }
  }
}

function parse(block) {
  const frame = { event: "message", id: null, data: {} };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "id") frame.id = Number(value);
    else if (name === "event") frame.event = value;
  }
  if (data.length) frame.data = JSON.parse(data.join("\n"));
  return frame.event === "message" ? null : frame; // comments (heartbeats) and `retry:` are no frames
}
