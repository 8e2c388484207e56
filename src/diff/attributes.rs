//! The attributes of instructions and modules that are compared, with their values in one spelling.

use std::borrow::Cow;

use super::ignore::{Ignore, IgnoreSet};
use crate::hlo::raw::{AttrName, InstrRef, Module};

/// Beginning of the frontend attributes of Shardy.
const SHARDY: &str = "xla.sdy.";

/// Beginning of frontend attributes that identify a module before a pass, and change with every name in it.
const FINGERPRINT: &str = "fingerprint_before_";

/// An attribute that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'m> {
    /// Its name; that of a frontend attribute is its key.
    pub name: &'m str,
    /// Its value as in the text.
    pub value: &'m str,
}

impl<'m> Attribute<'m> {
    /// The value without blanks, comments and metadata, none of which have a meaning outside of strings.
    pub(super) fn canonical(&self, ignored: IgnoreSet) -> Cow<'m, str> {
        let value = if self.name == AttrName::Sharding.name() && ignored.has(Ignore::Metadata) {
            without_group(self.value, "metadata=")
        } else {
            Cow::Borrowed(self.value)
        };
        match value {
            Cow::Borrowed(value) => without_blanks(value),
            Cow::Owned(value) => Cow::Owned(without_blanks(&value).into_owned()),
        }
    }
}

/// Adds the attributes of an instruction that are compared, sorted by name. Called computations and control predecessors are
/// none of them.
pub(super) fn of_instruction<'m>(instr: InstrRef<'m>, ignored: IgnoreSet, found: &mut Vec<Attribute<'m>>) {
    found.clear();
    for (name, value) in instr.attrs() {
        match kind(name) {
            Kind::Reference => {}
            Kind::Frontend => frontend(value, ignored, found),
            Kind::Ignorable(part) if ignored.has(part) => {}
            Kind::Ignorable(_) | Kind::Compared => found.push(Attribute { name, value }),
        }
    }
    found.sort_unstable_by_key(|attribute| attribute.name);
}

/// The attributes of a module that are compared. Counts of devices are one where the text has none.
pub(super) fn of_module(module: &Module, ignored: IgnoreSet) -> Vec<Attribute<'_>> {
    let always = [
        AttrName::ReplicaCount,
        AttrName::NumPartitions,
        AttrName::InputOutputAlias,
        AttrName::BufferDonor,
        AttrName::AliasPassthroughParams,
    ];
    let by_choice = [
        (AttrName::EntryComputationLayout, Ignore::Layouts),
        (AttrName::AllowSpmdShardingPropagationToParameters, Ignore::Shardings),
        (AttrName::AllowSpmdShardingPropagationToOutput, Ignore::Shardings),
        (AttrName::IsScheduled, Ignore::Order),
        (AttrName::OriginRecoveryTable, Ignore::Metadata),
    ];
    let by_choice = by_choice.into_iter().filter(|&(_, part)| !ignored.has(part)).map(|(name, _)| name);
    let mut found = Vec::new();
    for name in always.into_iter().chain(by_choice) {
        let value = module.attr(name).or(match name {
            AttrName::ReplicaCount | AttrName::NumPartitions => Some("1"),
            AttrName::IsScheduled => Some("false"),
            _ => None,
        });
        found.extend(value.map(|value| Attribute { name: name.name(), value }));
    }
    if let Some(value) = module.attr(AttrName::FrontendAttributes) {
        frontend(value, ignored, &mut found);
    }
    found.sort_unstable_by_key(|attribute| attribute.name);
    found
}

/// Whether an attribute is a sharding, of HLO or of Shardy.
pub(super) fn is_sharding(name: &str) -> bool {
    name == AttrName::Sharding.name() || name.starts_with(SHARDY)
}

/// Whether a custom call with this target, in quotes, annotates its operand with a sharding.
pub(super) fn is_annotation(target: &str) -> bool {
    let target = target.trim_matches('"');
    target == "Sharding" || target.starts_with(SHARDY)
}

/// The value of an attribute for people: that of Shardy without the names of its types and its mesh,
/// `[{}, {"fsdp"}]`, so that parameters and other instructions of one sharding have one text.
pub(super) fn readable<'m>(attribute: &Attribute<'m>) -> Cow<'m, str> {
    let value = attribute.value;
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let Some(inner) = inner.filter(|_| attribute.name.starts_with(SHARDY)) else { return value.into() };
    let inner = inner.replace("\\\"", "\"");
    let of_values = inner.strip_prefix("#sdy.sharding_per_value<[").and_then(|text| text.strip_suffix("]>"));
    let of_value = || inner.strip_prefix("#sdy.sharding").filter(|text| text.starts_with("<@"));
    match of_values.or_else(of_value) {
        Some(sharding) => sharding.replace("<@mesh, ", "").replace("]>", "]").into(),
        None => inner.into(),
    }
}

enum Kind {
    /// It names computations or instructions.
    Reference,
    /// A dictionary, each of whose keys is an attribute.
    Frontend,
    Ignorable(Ignore),
    Compared,
}

fn kind(name: &str) -> Kind {
    // In the order of the table: the frequent ones first.
    match name {
        "metadata" | "origin" | "statistics" => Kind::Ignorable(Ignore::Metadata),
        "backend_config" => Kind::Ignorable(Ignore::BackendConfig),
        "frontend_attributes" => Kind::Frontend,
        "sharding" | "parameter_replication" => Kind::Ignorable(Ignore::Shardings),
        "channel_id" => Kind::Ignorable(Ignore::Ids),
        "operand_layout_constraints" | "constrain_layout" => Kind::Ignorable(Ignore::Layouts),
        "control-predecessors" => Kind::Reference,
        "to_apply"
        | "calls"
        | "condition"
        | "body"
        | "true_computation"
        | "false_computation"
        | "branch_computations"
        | "called_computations"
        | "select"
        | "scatter" => Kind::Reference,
        _ => Kind::Compared,
    }
}

/// Adds the entries of `{key="value",other={...}}`.
fn frontend<'m>(dictionary: &'m str, ignored: IgnoreSet, found: &mut Vec<Attribute<'m>>) {
    let inner = dictionary.trim();
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    for entry in split(inner) {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        let key = key.trim().trim_matches('"');
        let part = match key {
            _ if key.starts_with(SHARDY) => Ignore::Shardings,
            _ if key.starts_with(FINGERPRINT) => Ignore::Metadata,
            _ => Ignore::FrontendAttributes,
        };
        if !key.is_empty() && !ignored.has(part) {
            found.push(Attribute { name: key, value: value.trim() });
        }
    }
}

/// The parts of a text between commas that are in no string and in no braces.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn skip_string(bytes: &mut impl Iterator<Item = (usize, u8)>) {
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

/// A text without `key={...}`, at its first occurrence.
fn without_group<'t>(text: &'t str, key: &str) -> Cow<'t, str> {
    let Some(start) = text.find(key) else { return Cow::Borrowed(text) };
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate().skip(start + key.len());
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' => depth += 1,
            b'}' if depth <= 1 => return Cow::Owned([&text[..start], &text[at + 1..]].concat()),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    Cow::Borrowed(text)
}

/// A text without blanks and comments outside of strings.
pub(super) fn without_blanks(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_whitespace() || byte == b'/') {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '"')) {
        kept.push_str(&rest[..at]);
        let here = &rest[at..];
        let (keep, skip) = match here.as_bytes() {
            [b'"', ..] => {
                let mut bytes = here.bytes().enumerate().skip(1);
                skip_string(&mut bytes);
                (true, bytes.next().map_or(here.len(), |(next, _)| next))
            }
            [b'/', b'*', ..] => (false, here.find("*/").map_or(here.len(), |end| end + 2)),
            [b'/', ..] => (true, 1),
            _ => (false, 1),
        };
        kept.push_str(if keep { &here[..skip] } else { "" });
        rest = &here[skip..];
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_that_names_computations_is_a_reference() {
        for name in AttrName::ALL {
            let is_reference = name.is_call() || *name == AttrName::ControlPredecessors;
            assert_eq!(matches!(kind(name.name()), Kind::Reference), is_reference, "{}", name.name());
        }
    }

    #[test]
    fn blanks_and_comments_are_removed_outside_of_strings() {
        let check = |text: &str, expect: &str| assert_eq!(without_blanks(text), expect);
        check("{0,1}", "{0,1}");
        check("{ {0, 1},\n{2,3} }", "{{0,1},{2,3}}");
        check(r#"{"a b": "c \" d" , "e/f":1}"#, r#"{"a b":"c \" d","e/f":1}"#);
        check("(f32[2]{0}, /*index=5*/f32[])", "(f32[2]{0},f32[])");
        check("a/b \"open", "a/b\"open");
        check("/* open", "");
    }

    #[test]
    fn frontend_attributes_are_split_at_the_commas_of_the_dictionary() {
        let found = |ignored| {
            let mut found = Vec::new();
            let text = r#"{a="x,y",xla.sdy.meshes={mesh = #sdy.mesh<["fsdp"=8,"t"=2]>}, fingerprint_before_lhs="1",b={c={1,2}}}"#;
            frontend(text, ignored, &mut found);
            found.iter().map(|attribute| (attribute.name, attribute.value)).collect::<Vec<_>>()
        };
        let meshes = ("xla.sdy.meshes", r#"{mesh = #sdy.mesh<["fsdp"=8,"t"=2]>}"#);
        let plain = [("a", r#""x,y""#), ("b", "{c={1,2}}")];
        assert_eq!(found(IgnoreSet::default()), [plain[0], meshes, plain[1]]);
        assert_eq!(found(IgnoreSet::default().with(Ignore::Shardings)), plain);
        assert_eq!(
            found(IgnoreSet::NONE.with(Ignore::FrontendAttributes)),
            [meshes, ("fingerprint_before_lhs", r#""1""#)]
        );
    }

    #[test]
    fn metadata_of_a_sharding_is_ignored_with_metadata() {
        let attribute = Attribute { name: "sharding", value: r#"{replicated metadata={op_name="a}b"}}"# };
        assert_eq!(attribute.canonical(IgnoreSet::default()), "{replicated}");
        assert_eq!(attribute.canonical(IgnoreSet::NONE), r#"{replicatedmetadata={op_name="a}b"}}"#);
    }
}
