"use strict";
const root = document.currentScript.dataset.root;

// The scheme is the system's, until the switch is used; it is set before anything is drawn.
const stored = () => { try { return localStorage.getItem("scheme"); } catch { return null; } };
if (stored()) document.documentElement.dataset.scheme = stored();

function switchScheme() {
	const style = document.documentElement.dataset;
	const dark = style.scheme ? style.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	style.scheme = dark ? "light" : "dark";
	try { localStorage.setItem("scheme", style.scheme); } catch { /* a browser that keeps nothing */ }
}

/* Browsers have no clipboard for pages that come without TLS. */
function addCopyButtons() {
	if (!navigator.clipboard) return;
	for (const pre of document.querySelectorAll("main pre")) {
		const button = document.createElement("button");
		button.type = "button";
		button.textContent = "copy";
		button.addEventListener("click", async () => {
			await navigator.clipboard.writeText(pre.querySelector("code").textContent);
			button.textContent = "copied";
			setTimeout(() => { button.textContent = "copy"; }, 1500);
		});
		pre.append(button);
	}
}

// sectionsOf are the sections with a word that begins with the letters typed.
function sectionsOf(prefix) {
	const found = new Set();
	for (const [word, distances] of Object.entries(index.words)) {
		if (!word.startsWith(prefix)) continue;
		let at = 0;
		for (const d of distances) found.add(at += d);
	}
	return found;
}

// search returns sections that have every word, those with the words in their headings first.
function search(typed) {
	const words = typed.toLowerCase().match(/[\p{L}\p{Nd}_]+/gu) || [];
	if (words.length === 0) return [];
	const sets = words.map(sectionsOf);
	const rank = (n) => {
		const [page, , title] = index.sections[n];
		const inText = (text) => words.filter((w) => text.toLowerCase().includes(w)).length;
		return 2 * inText(title) + inText(index.pages[page][1]);
	};
	return [...sets[0]].filter((n) => sets.every((s) => s.has(n))).map((n) => [rank(n), n]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 30).map(([, n]) => n);
}

function result(n) {
	const [page, anchor, title, text] = index.sections[n];
	const [file, name] = index.pages[page];
	const line = document.createElement("li"), link = document.createElement("a"), more = document.createElement("span");
	link.href = root + file + (anchor ? "#" + anchor : "");
	link.textContent = title === name ? name : `${name}: ${title}`;
	more.textContent = text;
	link.append(more);
	line.append(link);
	return line;
}

function startSearch() {
	const input = document.querySelector(".search input"), list = document.querySelector(".search ol");
	const close = () => { list.hidden = true; };
	input.addEventListener("input", () => {
		const found = search(input.value);
		list.replaceChildren(...found.map(result));
		if (found.length === 0) {
			const none = document.createElement("li");
			none.className = "none";
			none.textContent = "nothing was found";
			list.append(none);
		}
		list.hidden = input.value.trim() === "";
	});
	document.addEventListener("keydown", (e) => {
		const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
		if (e.key === "/" && document.activeElement !== input) { input.focus(); input.select(); }
		else if (e.key === "Escape") { close(); input.blur(); }
		else if (e.key === "Enter" && document.activeElement === input && links.length) links[0].click();
		else if (e.key === "ArrowDown" && !list.hidden && at + 1 < links.length) links[at + 1].focus();
		else if (e.key === "ArrowUp" && at > 0) links[at - 1].focus();
		else if (e.key === "ArrowUp" && at === 0) input.focus();
		else return;
		e.preventDefault();
	});
	document.addEventListener("click", (e) => { if (!e.target.closest(".search") || e.target.closest("a")) close(); });
}

document.addEventListener("DOMContentLoaded", () => {
	document.querySelector(".scheme").addEventListener("click", switchScheme);
	addCopyButtons();
	startSearch();
	const nav = document.querySelector("nav"), here = nav.querySelector("[aria-current]");
	if (here) nav.scrollTop = here.offsetTop - nav.clientHeight / 3;
});
