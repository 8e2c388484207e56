//! Compares the hand-written structures with the C header of API 0.81 that a package of the store carries.

use std::collections::BTreeMap;

use super::{
    api::{Api, SLOTS},
    args::STRUCTS,
};
use crate::testing;

/// Fields that versions after 0.81 appended; the announced size grew with them.
const APPENDED: &[(&str, usize)] = &[("PJRT_Executable_GetCompiledMemoryStats_Args", 4)];

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
}

#[derive(Default)]
struct Header {
    structs: BTreeMap<String, (Vec<Field>, usize)>,
}

impl Header {
    fn parse(text: &str) -> Self {
        let text: String =
            text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join(" ");
        let mut header = Self::default();
        for (at, mark) in text.match_indices("struct PJRT_") {
            let Some((name, rest)) = text[at + mark.len()..].split_once('{') else { continue };
            let name = name.trim();
            // The table of calls is a macro a line; the test of the slots reads it.
            if name != "Api" && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                let layout = header.layout(body(rest));
                header.structs.insert(format!("PJRT_{name}"), layout);
            }
        }
        header
    }

    /// Fields with offsets, and the alignment. A union is one field without a name.
    fn layout(&self, body: &str) -> (Vec<Field>, usize) {
        let (mut fields, mut end, mut align) = (Vec::<Field>::new(), 0usize, 1);
        let mut rest = body.trim();
        while !rest.is_empty() {
            let (name, size, field_align);
            if let Some(members) = rest.strip_prefix("union {") {
                let members_body = self::body(members);
                let members_layout: Vec<_> = members_body
                    .split_terminator(';')
                    .filter(|m| !m.trim().is_empty())
                    .map(|member| self.field(member))
                    .collect();
                (name, size, field_align) = (
                    String::new(),
                    members_layout.iter().map(|m| m.1).max().unwrap(),
                    members_layout.iter().map(|m| m.2).max().unwrap(),
                );
                rest = members[members_body.len()..].trim_start_matches(['}', ';', ' ']).trim();
            } else {
                let (declaration, after) = rest.split_once(';').unwrap();
                (name, size, field_align) = self.field(declaration);
                rest = after.trim();
            }
            let offset = end.next_multiple_of(field_align);
            fields.push(Field { name, offset, size });
            end = offset + size;
            align = align.max(field_align);
        }
        (fields, align)
    }

    /// Name, size and alignment of one declaration, on a 64-bit machine.
    fn field(&self, declaration: &str) -> (String, usize, usize) {
        let declaration = declaration.trim();
        if let Some((_, pointer)) = declaration.split_once("(*") {
            return (pointer.split_once(')').unwrap().0.to_owned(), 8, 8);
        }
        let (_, name) = declaration.rsplit_once([' ', '*']).unwrap();
        let kind = declaration[..declaration.len() - name.len()].trim().trim_start_matches("const ");
        let name = name.to_owned();
        match kind {
            _ if kind.ends_with('*') || kind.contains("Callback") => (name, 8, 8),
            "size_t" | "int64_t" | "uint64_t" | "uintptr_t" => (name, 8, 8),
            "int" | "float" => (name, 4, 4),
            "bool" => (name, 1, 1),
            _ => match self.structs.get(kind) {
                Some((fields, align)) => {
                    let end = fields.last().map_or(0, |f| f.offset + f.size);
                    (name, end.next_multiple_of(*align), *align)
                }
                // What is neither a structure nor a number is an enumeration.
                None => (name, 4, 4),
            },
        }
    }
}

/// The text up to the brace that closes what was opened before `text`.
fn body(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    panic!("unclosed brace");
}

fn header_text() -> String {
    let plugin = testing::cpu_plugin_path(testing::CpuBuild::Api081);
    std::fs::read_to_string(plugin.with_file_name("include").join("pjrt_c_api.h")).unwrap()
}

#[test]
fn every_structure_has_the_layout_of_the_header() {
    let header = Header::parse(&header_text());
    for &(name, announced, ours) in STRUCTS {
        let (theirs, _) = header.structs.get(name).unwrap_or_else(|| panic!("header lacks {name}"));
        let appended = APPENDED.iter().find(|(n, _)| *n == name).map_or(0, |&(_, n)| n);
        assert_eq!(ours.len(), theirs.len() + appended, "number of fields of {name}");
        for (&(field, offset, size), their) in ours.iter().zip(theirs) {
            if !their.name.is_empty() {
                assert_eq!(field.trim_end_matches('_'), their.name, "{name}");
            }
            assert_eq!((offset, size), (their.offset, their.size), "{name}.{field}");
        }
        let &(_, offset, size) = ours.last().unwrap();
        assert_eq!(announced, offset + size, "announced size of {name}");
    }
}

#[test]
fn every_slot_has_the_offset_of_the_header() {
    let text = header_text();
    let slots: Vec<&str> = text
        .split("_PJRT_API_STRUCT_FIELD(PJRT_")
        .skip(1)
        .map(|rest| rest.split_once(')').unwrap().0)
        .collect();
    let first = std::mem::offset_of!(Api, Error_Destroy);
    let theirs: Vec<(&str, usize)> =
        slots.iter().enumerate().map(|(i, &name)| (name, first + i * size_of::<usize>())).collect();
    assert_eq!(SLOTS, theirs);
    // size_t, pointer, then the version structure of size_t, pointer and two ints.
    assert_eq!(first, 16 + 24);
}
