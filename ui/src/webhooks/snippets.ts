/** Code with which a receiver verifies messages, using the libraries of Standard Webhooks. */

export const VERIFICATION: { label: string; text: string }[] = [
  {
    label: "Python",
    text: `# pip install standardwebhooks
from standardwebhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])

@app.post("/jobs")
async def receive(request: Request) -> Response:
    body = await request.body()
    headers = request.headers
    # Raises if the signature is invalid or the message is old.
    message = webhook.verify(body, dict(headers))
    # A message can arrive twice, with the same ID.
    if is_new(headers["webhook-id"]):
        handle(message["type"], message["data"])
    return Response(status_code=204)`,
  },
  {
    label: "TypeScript",
    text: `// npm install standardwebhooks
import { Webhook } from "standardwebhooks";

const secret = process.env.WEBHOOK_SECRET!;
const webhook = new Webhook(secret);

app.post("/jobs", express.text({ type: "*/*" }), (req, res) => {
  // Throws if the signature is invalid or the message is old.
  const message = webhook.verify(req.body, req.headers);
  // A message can arrive twice, with the same ID.
  if (isNew(req.headers["webhook-id"])) handle(message);
  res.sendStatus(204);
});`,
  },
];
