// Confirmations, forms, and short notes.
import { renderBlocks, textObject } from "/static/blocks.js";
import { h } from "/static/dom.js";
import { post, store } from "/static/store.js";

export function toast(sentence) {
  const place = document.getElementById("toast");
  place.textContent = sentence;
  place.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("shown"), 6000);
}

// Resolves to true when the person confirms.
export function ask(confirm) {
  const dialog = document.getElementById("confirm");
  return new Promise((resolve) => {
    const done = (answer) => {
      dialog.close();
      resolve(answer);
    };
    const label = (object, standard) => (object ? textObject(object) : standard);
    dialog.replaceChildren(
      h("h2", { id: "confirm-title" }, textObject(confirm.title)),
      h("p", {}, textObject(confirm.text)),
      h(
        "footer",
        {},
        h("button", { type: "button", class: "b-button", onclick: () => done(false) }, label(confirm.deny, "Cancel")),
        h("button", { type: "button", class: `b-button filled ${confirm.style ?? "primary"}`, autofocus: true, onclick: () => done(true) }, label(confirm.confirm, "Confirm")),
      ),
    );
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}

let shown = "";

// Shows the top form of the person's stack, keeping what was typed while it changes underneath.
export function drawModal() {
  const dialog = document.getElementById("modal");
  const top = store.views.filter((each) => each.view.type === "modal").at(-1);
  const state = top ? JSON.stringify([top.view.id, top.view.hash, top.errors]) : "";
  if (state === shown) return;
  shown = state;
  if (!top) {
    dialog.close();
    return;
  }
  const typed = dialog.dataset.view === top.view.id ? fields(dialog) : {};
  dialog.dataset.view = top.view.id;
  dialog.replaceChildren(form(top, typed));
  dialog.oncancel = (event) => {
    event.preventDefault();
    close(top.view);
  };
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("[aria-invalid]") ?? dialog.querySelector("input, textarea, select"))?.focus();
}

function close(view) {
  post("close", { view_id: view.id }).catch((error) => toast(error.message));
}

function form({ view, errors }, typed) {
  const send = async (event) => {
    event.preventDefault();
    const button = event.submitter;
    if (button) button.disabled = true;
    try {
      await post("submit", { view_id: view.id, values: fields(event.target) });
    } catch (error) {
      toast(error.message);
    }
    if (button) button.disabled = false;
  };
  return h(
    "form",
    { onsubmit: send, novalidate: true },
    h("h2", { id: "modal-title" }, textObject(view.title)),
    errors[""] ? h("p", { class: "trouble", role: "alert" }, errors[""]) : null,
    h("div", { class: "modal-body" }, renderBlocks(view.blocks, { input: (block) => field(block, errors[block.block_id], typed[block.block_id]) })),
    h(
      "footer",
      {},
      h("button", { type: "button", class: "b-button", onclick: () => close(view) }, view.close ? textObject(view.close) : "Cancel"),
      view.submit ? h("button", { type: "submit", class: "b-button filled primary" }, textObject(view.submit)) : null,
    ),
  );
}

function fields(root) {
  const values = {};
  for (const control of root.querySelectorAll("[data-block]")) {
    if (control.type === "radio" && !control.checked) continue;
    if (control.type === "checkbox") {
      values[control.dataset.block] ??= [];
      if (control.checked) values[control.dataset.block].push(control.value);
    } else {
      values[control.dataset.block] = control.value;
    }
  }
  return values;
}

function field(block, error, typed) {
  const id = `field-${block.block_id}`;
  const common = {
    id,
    "data-block": block.block_id,
    "aria-invalid": error ? "true" : null,
    "aria-describedby": error ? `${id}-error` : null,
    placeholder: block.element.placeholder?.text,
  };
  const many = ["checkboxes", "radio_buttons"].includes(block.element.type);
  return h(
    many ? "fieldset" : "div",
    { class: error ? "field wrong" : "field" },
    h(many ? "legend" : "label", { for: many ? null : id }, textObject(block.label), block.optional ? h("span", { class: "optional" }, " (optional)") : null),
    control(block, common, typed),
    block.hint ? h("p", { class: "hint" }, textObject(block.hint)) : null,
    error ? h("p", { class: "error", id: `${id}-error`, role: "alert" }, error) : null,
  );
}

const INPUT_TYPES = { number_input: "number", email_text_input: "email", url_text_input: "url", datepicker: "date", timepicker: "time" };

function control(block, common, typed) {
  const element = block.element;
  const start = typed ?? element.initial_value ?? element.initial_date ?? element.initial_time ?? element.initial_option?.value ?? "";
  if (element.type === "checkboxes" || element.type === "radio_buttons") {
    const chosen = typed ?? (element.initial_options ?? []).map((option) => option.value).concat(start || []);
    const type = element.type === "checkboxes" ? "checkbox" : "radio";
    return element.options.map((option) =>
      h("label", { class: "choice" }, h("input", { type, name: block.block_id, "data-block": block.block_id, value: option.value, checked: chosen.includes(option.value) }), h("span", {}, textObject(option.text))),
    );
  }
  if (element.options || element.option_groups) {
    const options = element.options ?? element.option_groups.flatMap((group) => group.options);
    const list = h("select", common, h("option", { value: "" }, element.placeholder?.text ?? "Choose…"), options.map((option) => h("option", { value: option.value }, textObject(option.text))));
    list.value = start;
    return list;
  }
  if (element.type === "users_select") {
    const list = h("select", common, h("option", { value: "" }, "Choose a person…"), [...store.people.values()].map((person) => h("option", { value: person.id }, person.real_name)));
    list.value = typed ?? element.initial_user ?? "";
    return list;
  }
  if (element.multiline) return h("textarea", { ...common, rows: "4", value: start });
  return h("input", { ...common, type: INPUT_TYPES[element.type] ?? "text", autocomplete: "off", value: start });
}
