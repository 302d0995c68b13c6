// Share links of an album: made, copied once, revoked.
import { call, element } from "./api.js";
import { moment } from "./store.js";

const DAY_SECONDS = 86_400;

export class Shares {
  constructor(address, dialog) {
    this.address = `${address}/shares`;
    this.dialog = dialog;
    this.part = (name) => dialog.querySelector(`[data-part=${name}]`);
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      this.attempt(() => this.create());
    };
    this.part("copy").onclick = () => this.copy();
    this.part("close").onclick = () => dialog.close();
    dialog.addEventListener("close", () => { this.part("made").hidden = true; });
  }

  open() {
    this.dialog.showModal();
    return this.attempt(() => this.list());
  }

  async attempt(work) {
    this.part("problem").hidden = true;
    try {
      await work();
    } catch (error) {
      this.part("problem").textContent = error.message;
      this.part("problem").hidden = false;
    }
  }

  async create() {
    const days = Number(this.part("days").value);
    const made = await call("POST", this.address, { lifetimeSeconds: days ? days * DAY_SECONDS : null });
    this.part("link").value = new URL(made.url ?? `/s/${made.secret}`, location.href).href;
    this.part("made").hidden = false;
    this.part("link").select();
    await this.list();
  }

  async copy() {
    const link = this.part("link");
    link.select();
    try {
      await navigator.clipboard.writeText(link.value);
      this.part("copy").textContent = "Copied";
      setTimeout(() => { this.part("copy").textContent = "Copy"; }, 2_000);
    } catch {
      this.part("copy").textContent = "Press Ctrl+C"; // no clipboard without https; the link is selected
    }
  }

  async list() {
    const { shares } = await call("GET", this.address);
    const open = shares.filter(({ revokedAt, expiresAt }) => !revokedAt && !(expiresAt && Date.parse(expiresAt) < Date.now()));
    this.part("list").replaceChildren(...open.map((share) => this.row(share)));
    this.part("none").hidden = open.length > 0;
  }

  row({ id, createdAt, expiresAt }) {
    const until = expiresAt ? `until ${moment(expiresAt)}` : "until it is revoked";
    return element("li", {},
      element("span", {}, `Made ${moment(createdAt)}, good ${until}`),
      element("button", { class: "small danger", type: "button", onclick: () => this.attempt(async () => {
        await call("DELETE", `${this.address}/${id}`);
        await this.list();
      }) }, "Revoke"));
  }
}
