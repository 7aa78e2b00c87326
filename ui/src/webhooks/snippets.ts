/** Code with which a receiver verifies messages, using the libraries of Standard Webhooks. */

export const VERIFICATION: { label: string; text: string }[] = [
  {
    label: "Python",
    text: `# pip install standardwebhooks
from standardwebhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])

@app.post("/jobs")
async def hear(request: Request) -> Response:
    body = await request.body()
    headers = request.headers
    # Raises when it is not ours, or old.
    told = webhook.verify(body, dict(headers))
    # One may come twice, under the same id.
    if is_new(headers["webhook-id"]):
        handle(told["type"], told["data"])
    return Response(status_code=204)`,
  },
  {
    label: "TypeScript",
    text: `// npm install standardwebhooks
import { Webhook } from "standardwebhooks";

const secret = process.env.WEBHOOK_SECRET!;
const webhook = new Webhook(secret);

app.post("/jobs", express.text({ type: "*/*" }), (req, res) => {
  // Throws when it is not ours, or old.
  const told = webhook.verify(req.body, req.headers);
  // One may come twice, under the same id.
  if (isNew(req.headers["webhook-id"])) handle(told);
  res.sendStatus(204);
});`,
  },
];
