//! Names of tensors, and patterns for them.

/// The name of a parameter as mesh files may write it: `layers.*.self_attn.k_proj` for
/// `model.layers.*.self_attn.k_proj.weight`. Biases keep their ending.
pub fn short(name: &str) -> &str {
    let name = name.strip_prefix("model.").unwrap_or(name);
    name.strip_suffix(".weight").unwrap_or(name)
}

/// Whether a pattern matches this tensor. `*` matches any text. `model.` before a name and `.weight` or `.bias` after it
/// may be left out; the layers are stacked into one tensor, whose name has `*` for the layer.
pub fn matches(pattern: &str, name: &str) -> bool {
    let name = name.strip_suffix(IN_COMPUTATION).unwrap_or(name);
    let short = short(name);
    let module = short.strip_suffix(".bias").unwrap_or(short);
    [name, name.strip_prefix("model.").unwrap_or(name), short, module]
        .into_iter()
        .any(|name| glob(pattern, name))
}

/// Whether all of `text` matches `pattern`, in which `*` matches any text.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

/// The name of a parameter with its compute sharding, beside the stored one.
pub fn in_computation(name: &str) -> String {
    format!("{}{IN_COMPUTATION}", name.strip_suffix(".weight").unwrap_or(name))
}

const IN_COMPUTATION: &str = " in computation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_whole_names() {
        let name = "model.layers.*.self_attn.k_proj.weight";
        for pattern in
            [name, "layers.*.self_attn.k_proj", "layers.*.k_proj.weight", "*k_proj*", "*", "model.*"]
        {
            assert!(matches(pattern, name), "{pattern}");
        }
        for pattern in ["k_proj", "layers.*.self_attn", "layers.3.self_attn.k_proj", "*q_proj", ""] {
            assert!(!matches(pattern, name), "{pattern}");
        }
        let bias = "model.layers.*.self_attn.k_proj.bias";
        assert!(matches("layers.*.self_attn.k_proj", bias) && matches("*.bias", bias));
        assert!(!matches("*.weight", bias));
        assert!(matches("lm_head", "lm_head.weight") && !matches("a*a", "a"));
    }
}
