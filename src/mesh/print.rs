//! Mesh configs as text: one file that says what several together said.

use std::fmt::{self, Write};

use super::{AxisSize, MeshConfig, OnViolation, Rule};

/// The config as a mesh file, without lines of its own for what is the default.
impl fmt::Display for MeshConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[mesh]\n")?;
        for axis in &self.axes {
            match axis.size {
                AxisSize::Fixed(size) => writeln!(f, "{} = {size}", axis.name)?,
                AxisSize::Rest => writeln!(f, "{} = \"rest\"", axis.name)?,
            }
        }
        for (name, rules) in [("store", &self.store), ("compute", &self.compute)] {
            writeln!(f, "\n[{name}]")?;
            rules.iter().try_for_each(|rule| writeln!(f, "{}", entry(rule)))?;
        }
        for overridden in &self.overrides {
            let entries: Vec<String> = overridden.rules.iter().map(entry).collect();
            let entries = entries.join(", ");
            writeln!(f, "\n[[override]]\nparam = {:?}\ndims = {{ {entries} }}", overridden.param)?;
        }
        let policy = &self.policy;
        let mut choices = String::new();
        for (name, choice) in [
            ("indivisible", policy.indivisible),
            ("axis_conflict", policy.axis_conflict),
            ("unused_axis", policy.unused_axis),
        ] {
            match choice {
                OnViolation::Error => {}
                OnViolation::Replicate => writeln!(choices, "{name} = \"replicate\"")?,
                OnViolation::Pad => writeln!(choices, "{name} = \"pad\"")?,
            }
        }
        if !choices.is_empty() {
            write!(f, "\n[policy]\n{choices}")?;
        }
        writeln!(f, "\n[partitioner]\nkind = \"{}\"", self.partitioner.name())
    }
}

/// A rule as a line.
fn entry(rule: &Rule) -> String {
    let axes = match &rule.axes[..] {
        [] => "\"none\"".to_owned(),
        [axis] => format!("{axis:?}"),
        several => format!("{several:?}"),
    };
    format!("{} = {axes}", rule.dim.name())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::load;

    #[test]
    fn a_printed_config_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        let text = "[mesh]\na = 2\nb = \"rest\"\n\n[store]\nembed = [\"a\", \"b\"]\nheads = \"none\"\n\n[compute]\n\
                    batch = \"a\"\n\n[[override]]\nparam = \"layers.*.self_attn.k_proj\"\n\
                    dims = { kv_heads = \"none\", embed = \"b\" }\n\n[policy]\nindivisible = \"pad\"\n\n\
                    [partitioner]\nkind = \"shardy\"\n";
        fs::write(&file, text).unwrap();
        let loaded = load(&file).unwrap();
        assert!(loaded.problems.is_empty());
        assert_eq!(loaded.config.to_string(), text);
    }
}
