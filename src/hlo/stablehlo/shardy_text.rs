//! The text of Shardy's attributes as HLO has it. Only its outer structure is read: the inner one is Shardy's.

/// The meshes in `{mesh = #sdy.mesh<["fsdp"=4]>}`: the name and `<["fsdp"=4]>` of each.
pub(super) fn meshes(text: &str) -> Option<Vec<(&str, &str)>> {
    let entries = split(text.strip_prefix('{')?.strip_suffix('}')?)?;
    let mesh = |entry: &&'_ str| -> Option<(usize, usize)> {
        let (name, mesh) = entry.split_once('=')?;
        let mesh = mesh.trim_start().strip_prefix("#sdy.mesh")?;
        is_group(mesh).then_some((name.trim_end().len(), mesh.len()))
    };
    entries
        .into_iter()
        .map(|entry| {
            let (name, mesh) = mesh(&entry)?;
            let name = &entry[..name];
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
            plain.then(|| (name, &entry[entry.len() - mesh..]))
        })
        .collect()
}

/// The sharding of each value, such as `<@mesh, [{"fsdp"}, {}]>`, in the text of
/// [`sharding`](crate::hlo::shardy::sharding) or [`sharding_per_value`](crate::hlo::shardy::sharding_per_value).
pub(super) fn shardings(text: &str) -> Option<Vec<&str>> {
    let values = match text.strip_prefix("#sdy.sharding_per_value") {
        Some(list) => split(list.strip_prefix("<[")?.strip_suffix("]>")?)?,
        None => vec![text.strip_prefix("#sdy.sharding")?],
    };
    values.iter().all(|value| is_group(value)).then_some(values)
}

/// Whether a text is one group in angle brackets.
fn is_group(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>') && split(text).is_some_and(|items| items.len() == 1)
}

/// The items between the commas that are outside of brackets and strings. `None` if brackets or quotes do not match.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut items, mut closers, mut quoted, mut start) = (Vec::new(), Vec::new(), false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            // No axis has a name with an escape.
            b'\\' => return None,
            _ if quoted => {}
            b'<' => closers.push(b'>'),
            b'[' => closers.push(b']'),
            b'{' => closers.push(b'}'),
            b'(' => closers.push(b')'),
            b'>' | b']' | b'}' | b')' if closers.pop() != Some(byte) => return None,
            b',' if closers.is_empty() => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if quoted || !closers.is_empty() {
        return None;
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        items.push(last);
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::shardy;

    #[test]
    fn what_the_project_writes_is_read() {
        let axes = [("fsdp", 4), ("tp", 2)];
        assert_eq!(meshes(&shardy::mesh(&axes)), Some(vec![("mesh", r#"<["fsdp"=4, "tp"=2]>"#)]));
        let dims = [vec![0], vec![]];
        let sharding = r#"<@mesh, [{"fsdp"}, {}]>"#;
        assert_eq!(shardings(&shardy::sharding(&axes, &dims)), Some(vec![sharding]));
        let per_value = shardy::sharding_per_value(&axes, &[dims.to_vec(), vec![]]);
        assert_eq!(shardings(&per_value), Some(vec![sharding, "<@mesh, []>"]));
        assert_eq!(shardings("#sdy.sharding_per_value<[]>"), Some(vec![]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "#sdy.sharding", "#sdy.sharding<@mesh", "#sdy.sharding<@m>, <@m>", "#sdy.sharding<@m>} x <"]
        {
            assert_eq!(shardings(text), None, "{text}");
        }
        for text in ["{}{}", "{mesh}", "{mesh = <[]>}", "{m m = #sdy.mesh<[]>}", "{m = #sdy.mesh<[\"a>}"] {
            assert_eq!(meshes(text), None, "{text}");
        }
    }
}
