// The list of albums: make one, and go there.
import { call } from "./api.js";

const form = document.getElementById("new-album");
const problem = document.getElementById("problem");
form.onsubmit = async (event) => {
  event.preventDefault();
  problem.hidden = true;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const album = await call("POST", "/api/v1/albums", { name: form.elements.name.value.trim() });
    location.href = `/albums/${album.id}`;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    button.disabled = false;
  }
};
