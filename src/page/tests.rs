use super::*;
use crate::hlo::raw::{Module, parse};

fn module(text: &str) -> Module {
    parse(text, "test.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// The JSON of an element of a page.
fn embedded(html: &str, id: &str) -> serde_json::Value {
    let start = format!("<script type=\"application/json\" id=\"{id}\">");
    let (_, rest) = html.split_once(&start).unwrap_or_else(|| panic!("no element {id}"));
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn one(text: &str) -> serde_json::Value {
    let module = module(text);
    embedded(&html(&Stages::One(Stage { title: "t", module: &module, memory: None })), "module-0")
}

/// Names of paired instructions with their status, in order of the module before.
fn paired(before: &str, after: &str) -> Vec<(String, String, PairStatus)> {
    let (before, after) = (module(before), module(after));
    let name = |module: &Module, place: Place| {
        module.instructions(place.computation).nth(place.position).unwrap().name().to_owned()
    };
    let pairs = pairs::by_name(&before, &after);
    pairs.iter().map(|pair| (name(&before, pair.before), name(&after, pair.after), pair.status)).collect()
}

#[test]
fn rows_have_no_empty_values_at_their_end() {
    let data = one("
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,4] parameter(0), sharding={replicated}
  zero = f32[] constant(0)
  ROOT sum = f32[8] reduce(x, zero), dimensions={1}, to_apply=add, metadata={op_name=\"jit(f)/sum\" source_line=3}
}");
    let strings = data["strings"].as_array().unwrap();
    let at = |text: &str| strings.iter().position(|found| found == text).unwrap();
    let rows = data["instructions"].as_array().unwrap();
    assert_eq!(rows[0], serde_json::json!(["a", 0, 0, [], [], 0, 0, 0, at("0")]));
    assert_eq!(rows[2], serde_json::json!(["c", 1, 0, [0, 1], [], 0, 0, 1]));
    let attrs = [at("dimensions"), at("{1}")];
    assert_eq!(
        rows[5],
        serde_json::json!(["sum", 3, 2, [0, 1], attrs, at("jit(f)/sum"), at("source_line=3"), 24])
    );
    assert_eq!(data["shapes"], serde_json::json!([["f32[]", 4], ["f32[8,4]", 128], ["f32[8]", 32]]));
    let calls = [serde_json::json!([2, at("to_apply"), 0, 0])];
    assert_eq!(data["computations"][1], serde_json::json!(["main", 3, 3, 2, 1, calls]));
}

#[test]
fn no_text_of_a_module_ends_its_element() {
    let text =
        "ENTRY main { ROOT x = f32[] parameter(0), metadata={op_name=\"</script><!--<script>\u{2028}\"} }";
    let module = module(text);
    let stage = Stage { title: "<b>&</title>", module: &module, memory: None };
    let html = html(&Stages::One(stage));
    assert!(!html.contains("</script><!--"), "{html}");
    assert!(html.contains("\\u003c/script>\\u003c!--\\u003cscript>\\u2028"));
    assert!(html.contains("<title>&lt;b>&amp;&lt;/title></title>"));
    let data = embedded(&html, "module-0");
    assert!(data["strings"].as_array().unwrap().contains(&"</script><!--<script>\u{2028}".into()));
    assert_eq!(data["title"], "<b>&</title>");
}

#[test]
fn long_values_say_how_much_is_left_out() {
    let elements = vec!["1"; 3000].join(", ");
    let data = one(&format!("ENTRY main {{ ROOT c = s32[3000] constant({{{elements}}}) }}"));
    let cut = data["strings"].as_array().unwrap().iter().find(|text| text.is_array()).unwrap();
    let (kept, omitted) = (cut[0].as_str().unwrap(), cut[1].as_u64().unwrap() as usize);
    assert_eq!((kept.len(), kept.len() + omitted), (4000, elements.len() + 2));
    // A cut is at a character.
    let op_name = "é".repeat(2500);
    let data =
        one(&format!("ENTRY main {{ ROOT c = s32[] parameter(0), metadata={{op_name=\"x{op_name}\"}} }}"));
    let cut = data["strings"].as_array().unwrap().iter().find(|text| text.is_array()).unwrap();
    assert_eq!((cut[0].as_str().unwrap().len(), &cut[1]), (3999, &501.into()));
}

#[test]
fn stacks_are_innermost_first() {
    let data = one("HloModule m
FileNames
1 \"a.py\"
FunctionNames
1 \"inner\"
2 \"outer\"
FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=9 end_line=9 column=1 end_column=2}
StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

ENTRY main { ROOT x = f32[] parameter(0), metadata={stack_frame_id=2} }");
    let strings = data["strings"].as_array().unwrap();
    let stack = data["stacks"][0][1].as_array().unwrap();
    let text =
        |value: &serde_json::Value| strings[value.as_u64().unwrap() as usize].as_str().unwrap().to_owned();
    let lines: Vec<_> = stack.iter().map(|frame| (text(&frame[1]), frame[2].as_u64().unwrap())).collect();
    assert_eq!(lines, [("inner".to_owned(), 7), ("outer".to_owned(), 9)]);
}

#[test]
fn pairs_are_by_name_then_by_op_name() {
    use PairStatus::{Changed, Same};
    let before = "
body { t = f32[8] parameter(0) ROOT u = f32[8] negate(t), metadata={op_name=\"neg\"} }
ENTRY main {
  x = f32[8] parameter(0)
  gone = f32[8] abs(x)
  y = f32[8] call(x), to_apply=body
  d = f32[8] exponential(y), metadata={op_name=\"exp\"}
  ROOT z = f32[8] add(d, y)
}";
    let after = "
region.7 { p = f32[8] parameter(0) ROOT n = f32[8] negate(p), metadata={op_name=\"neg\"} }
ENTRY main.3 {
  x = f32[8] parameter(0)
  y = f32[8] call(x), to_apply=region.7
  fusion.1 = f32[8] exponential(y), metadata={op_name=\"exp\"}
  new = f32[8] tanh(fusion.1)
  ROOT z = f32[8] subtract(new, y)
}";
    let found = paired(before, after);
    let found: Vec<_> =
        found.iter().map(|(old, new, status)| (old.as_str(), new.as_str(), *status)).collect();
    // Neither `t` and `p` nor their computations have a name in common, but both are parameter 0 of what `y` calls.
    assert_eq!(
        found,
        [
            ("t", "p", Same),
            ("u", "n", Same),
            ("x", "x", Same),
            ("y", "y", Same),
            ("d", "fusion.1", Same),
            ("z", "z", Changed)
        ]
    );
}

#[test]
fn pairs_of_a_caller_replace_the_search_for_them() {
    let (before, after) = (
        module("ENTRY e { ROOT x = f32[] parameter(0) }"),
        module("ENTRY e { ROOT x = f32[] parameter(0) }"),
    );
    let stage = |module| Stage { title: "s", module, memory: None };
    let page = |pairs| html(&Stages::Two { before: stage(&before), after: stage(&after), pairs });
    let place = Place { computation: before.entry(), position: 0 };
    let changed = [Pair { before: place, after: place, status: PairStatus::Changed }];
    assert_eq!(embedded(&page(None), "pairs"), serde_json::json!([0, 0, 0]));
    assert_eq!(embedded(&page(Some(&changed)), "pairs"), serde_json::json!([0, 0, 1]));
    assert_eq!(embedded(&page(Some(&[])), "pairs"), serde_json::json!([]));
}
