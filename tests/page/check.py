"""Uses pages as a reader does: `check.py CHROMIUM FOLDER`, with the pages that `main` lists in the folder."""

import os
import sys

from browser import Browser


def text(page, selector):
    return page.js(f"[...document.querySelectorAll({selector!r})].map((element) => element.textContent)")


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def heading(page, name, pane=0):
    page.wait(f"document.querySelectorAll('.details')[{pane}].querySelector('h2')?.textContent.includes({name!r})")


def section(page, title, part, pane=0):
    """Checks that a section of the details has this text."""
    find = f"""[...document.querySelectorAll('.details')[{pane}].querySelectorAll('section')]
        .find((section) => section.querySelector('h3').textContent.startsWith({title!r}))?.innerText"""
    found = page.js(find)
    if part not in (found or ""):
        raise AssertionError(f"{title}: expected {part!r} in {found!r}")


def search(page, query):
    page.key("/")
    page.wait("document.activeElement.id === 'query'")
    page.js("document.activeElement.select()")
    page.type(query)


def instructions(page):
    """Search, links, layout, sharding, source, keys, and the way back."""
    search(page, "dot_general")
    equal(text(page, ".result-name"), ["dot.9"], "found by op_name")
    search(page, "f32[64")
    equal(text(page, ".result-name"), ["gathered"], "found by shape")
    search(page, "source:train.py:30 in:region")
    equal(text(page, ".result-name"), ["dot.9", "reduced"], "found by source")
    search(page, "name:e op:negate")
    equal(text(page, ".result-name"), [], "found by name and opcode")
    search(page, "op:dot")
    page.key("Enter")
    heading(page, "%dot.9")
    equal(page.js("location.hash"), "#computation=region_0.7&instr=dot.9", "hash")
    section(page, "Shape", "layout: minor to major 0, 1")
    section(page, "Source", "jit(step)/layer/dot_general\nmodel.py:7 layer\ntrain.py:30 main")
    # To a user, into the computation it calls, to its caller, and back with the browser.
    page.click(".details .link", "%added")
    heading(page, "%added")
    section(page, "Attributes", '"device_type": "DEVICE_TYPE_INVALID"')
    page.click(".details .link", "fused")
    heading(page, "fused")
    page.click(".details .link", "%added")
    heading(page, "%added")
    page.click(".details .link", "%dot.9")
    heading(page, "%dot.9")
    page.js("history.back()")
    heading(page, "%added")
    for key, name in [("ArrowLeft", "%dot.9"), ("ArrowRight", "%added"), ("ArrowDown", "%reduced"), ("Backspace", "%dot.9"), ("ArrowRight", "%added"), ("Enter", "%e")]:
        page.key(key)
        heading(page, name)


def shardings(page):
    search(page, "input")
    page.key("Enter")
    heading(page, "%input")
    equal(text(page, ".devices .device"), [str(device) for device in range(8)], "devices")
    colors = page.js("[...document.querySelectorAll('.devices .device')].map((device) => device.style.cssText)")
    equal(len(set(colors)), 4, "colors")
    equal([colors[0], colors[1]], [colors[4], colors[5]], "colors of replicas")
    equal(text(page, ".legend code"), ["[0:16, :]", "[16:32, :]", "[32:48, :]", "[48:64, :]"], "shards")
    section(page, "Shape", "row-major; tiles of 8 × 128; memory space 1")
    search(page, "reduced")
    page.key("Enter")
    heading(page, "%reduced")
    section(page, "Device groups", "4 groups of 2 devices")
    titles = page.js("[...document.querySelectorAll('.devices .device')].map((device) => device.title)")
    equal(titles[5], "device 5: group 1", "group")
    search(page, "swapped")
    page.key("Enter")
    heading(page, "%swapped")
    equal(text(page, ".arrow"), ["0→1", "1→0"], "pairs")


# Of each parameter of shardings.hlo, a device and what it has of `[16,32]`.
SHARDS = {
    "tiled": (5, "[8:16, 8:16]"),
    "transposed": (5, "[4:8, 16:32]"),
    "partly": (6, "[8:16, :]"),
    "listed": (2, "[0:8, 16:32]"),
    "several_axes": (5, "[12:14, :]"),
    "part_of_axis": (5, "[4:8, :]"),
    "reordered": (2, "[8:16, :]"),
    "tuple": (1, "[8:16, :]"),
    "shardy": (5, "[:, 8:16]"),
}
WORDS = {"replicated": "every device has the whole array", "maximal": "one device has the whole array"}


def forms(page):
    """Every form of a sharding."""
    for name, (device, shard) in SHARDS.items():
        search(page, f"name:{name}")
        page.key("Enter")
        heading(page, f"%{name}")
        titles = page.js("[...document.querySelectorAll('.devices .device')].map((device) => device.title)")
        if f"device {device}: {shard}" not in titles:
            raise AssertionError(f"{name}: expected device {device} to have {shard}, found {titles}")
    for name, words in WORDS.items():
        search(page, f"name:{name}")
        page.key("Enter")
        heading(page, f"%{name}")
        section(page, "Sharding", words)


def graph(page):
    """Steps around `loop`: only operands and users within reach are drawn."""

    def nodes():
        return sorted(text(page, ".graph .node .name"))

    search(page, "loop")
    page.key("Enter")
    heading(page, "%loop")
    equal(nodes(), ["gathered", "init", "input", "loop", "y", "zero"], "two steps")
    page.click(".graph .fewer")
    page.wait("document.querySelectorAll('.graph .node').length === 3")
    equal(nodes(), ["init", "loop", "y"], "one step")
    equal(text(page, ".graph svg .more"), ["+2 operands", "+1 user"], "what is not drawn")
    page.key("]")
    page.key("]")
    page.wait("document.querySelectorAll('.graph .node').length === 7")
    # Every edge goes downward.
    starts = page.js("""[...document.querySelectorAll('.graph .edge')].map((edge) => {
        const box = edge.getPointAtLength(0);
        return edge.getPointAtLength(edge.getTotalLength()).y - box.y;
    })""")
    equal((len(starts), min(starts) > 0), (6, True), "edges")
    page.wait("new URLSearchParams(location.hash.slice(1)).get('k') === '3'")
    page.click(".graph .node:not(.center) .name", "cut")
    heading(page, "%cut")
    equal(page.js("new URLSearchParams(location.hash.slice(1)).get('k')"), "3", "k in the hash")


def collectives(page):
    names = """[...document.querySelectorAll('.collectives .row')].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
        .map((row) => row.children[1].textContent)"""
    page.click("#views button", "collectives")
    page.wait("document.querySelectorAll('.collectives .row').length === 3")
    equal(page.js(names), ["reduced", "gathered", "swapped"], "by total")
    page.click(".collectives .table-head .cell", "name")
    equal(page.js(names), ["gathered", "reduced", "swapped"], "by name")
    page.click(".collectives .table-head .cell", "bytes")
    equal(page.js(names)[0], "gathered", "by bytes")
    page.click(".collectives .row .cell", "reduced")
    heading(page, "%reduced")
    sums = page.js("document.querySelector('.collectives .list-title').textContent")
    if "all-reduce ×6 · 12.0 KiB" not in sums:
        raise AssertionError(sums)


def memory(page):
    page.click("#views button", "memory")
    page.wait("document.querySelectorAll('.memory .row').length === 2")
    equal(text(page, ".memory .list-title b"), ["10.0 KiB"], "peak")
    box = page.js("(() => { const box = document.querySelector('.plot').getBoundingClientRect(); return [box.left, box.right, box.top]; })()")
    page.move(box[0] + 72, box[2] + 80)
    page.wait("document.querySelectorAll('.memory .row').length === 1")
    equal(text(page, ".memory .row .link"), ["input"], "buffer under the cursor")
    page.click(".memory .row .link", "input")
    heading(page, "%input")


def outline(page):
    names = text(page, ".outline .tree-name")
    equal(names, ["main", "condition", "region_0.7", "1 fusion", "1 applied computation"], "outline")
    page.click(".outline .twist", "▸")
    page.click(".outline .tree-name", "fused")
    heading(page, "fused")
    page.js("""(() => { const select = document.querySelector('.outline select'); select.value = 'FLOPs'; select.dispatchEvent(new Event('change')); })()""")
    values = text(page, ".outline .tree-value")
    # Six iterations of a product of 16 x 32 x 32 and of two elementwise operations.
    equal(values[2], f"{6 * (2 * 16 * 32 * 32 + 2 * 16 * 32) / 1000:.0f} KFLOP", "FLOPs of the loop")


def theme(page):
    """The system's theme, until the reader chooses another one."""
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.js(paper)
    page.resize(1280, 800, "dark")
    dark = page.js(paper)
    page.click("#theme")
    equal((page.js(paper), light != dark), (light, True), "theme")
    page.resize(1280, 800, "light")


def compare(page):
    """Selecting on one side selects the counterpart on the other."""
    search(page, "name:product")
    page.key("Enter")
    heading(page, "%product", 0)
    heading(page, "%dot.9", 1)
    section(page, "Changes", "f32[16,32]{1,0} here, f32[16,32]{0,1} there")
    page.js("document.querySelectorAll('.pane')[1].setAttribute('data-side', 'right')")
    page.click("[data-side=right] .list .cell", "+added")
    heading(page, "%added", 1)
    page.wait("document.querySelectorAll('.details')[0].textContent.includes('Added: this module has no counterpart')")
    statuses = "[...document.querySelectorAll('[data-side=right] .list .row')].map((row) => row.className.match(/same|added|changed/)?.[0])"
    equal(sorted(page.js(statuses)), ["added"] + 2 * ["changed"] + 7 * ["same"], "statuses")
    page.click("#views input")
    page.wait("document.querySelectorAll('[data-side=right] .list .row').length === 3")
    page.click("#views input")
    search(page, "name:gathered")
    page.key("Enter")
    heading(page, "%gathered", 1)
    page.key("n")
    heading(page, "%cut", 1)
    page.key("n")
    heading(page, "%swapped", 1)
    heading(page, "%swapped", 0)
    page.key("p")
    heading(page, "%cut", 1)


def large(page):
    """A list has only the rows in sight, however many there are."""
    rows = page.js("document.querySelectorAll('.list .row').length")
    if not 5 < rows < 80:
        raise AssertionError(f"{rows} rows in the document")
    search(page, "i.19")
    page.wait("document.querySelector('.result-count b').textContent === '1,111 instructions'")
    equal(page.js("document.querySelectorAll('.result').length < 40"), True, "results in the document")
    search(page, "i.19876")
    page.key("Enter")
    heading(page, "%i.19876")
    page.wait("document.querySelector('.list .row.selected')?.textContent.includes('i.19876')")


def main():
    chromium, folder = sys.argv[1:]
    pages = {
        "one.html": [instructions, shardings, graph, collectives, memory, outline, theme],
        "two.html": [compare],
        "large.html": [large],
        "shardings.html": [forms],
    }
    with Browser(chromium) as page:
        page.resize(1280, 800)
        for name, checks in pages.items():
            for check in checks:
                page.open(os.path.join(folder, name))
                try:
                    check(page)
                except Exception as error:
                    print(f"{name}, {check.__name__}: {error}", file=sys.stderr)
                    raise
                equal(page.errors, [], f"{name}, {check.__name__}: errors of the page")
        # Narrow windows show details and graph in turn.
        page.resize(800, 700)
        page.open(os.path.join(folder, "one.html"), "#instr=loop&computation=main")
        page.click(".tabs button", "graph")
        page.wait("document.querySelectorAll('.graph .node').length === 6")
        equal(page.errors, [], "errors of a narrow page")


main()
