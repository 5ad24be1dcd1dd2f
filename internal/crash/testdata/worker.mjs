// A worker of the TypeScript SDK that writes down when it runs what: worker.mjs URL LEDGER SDK.
import { appendFileSync } from "node:fs";

const [url, ledger, sdk] = process.argv.slice(2);
const { Client, Worker } = await import(sdk);
const worker = new Worker(new Client(url, { token: process.env.SOJOURN_TOKEN }), { concurrency: 4 });

worker.handle("work", async (job) => {
  appendFileSync(ledger, `begin ${job.id} ${Date.now()}000000 typescript\n`);
  await new Promise((done) => setTimeout(done, job.args));
  appendFileSync(ledger, `end ${job.id} ${Date.now()}000000 typescript\n`);
  return { by: "typescript" };
});

await worker.run();
