use super::source::TemplateSource;

/// What is known of a template before it is instantiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateInfo {
    /// Its name.
    pub name: String,
    /// The file that replaces the built-in template, or adds one; `None` for a built-in template.
    pub file: Option<String>,
    /// Name and shape of each parameter of the entry computation, with template parameters such as `$batch`.
    pub parameters: Vec<(String, String)>,
    /// Shape of the result.
    pub result: String,
}

impl TemplateInfo {
    pub(super) fn of(name: &str, source: &TemplateSource, is_replaced: bool) -> Self {
        let mut lines = source.text.lines().map(str::trim);
        let entry: Vec<&str> = match lines.find(|line| line.starts_with("ENTRY ")) {
            Some(_) => lines.take_while(|line| !line.starts_with('}')).collect(),
            None => vec![],
        };
        let assigned = |line: &str| {
            let (name, rest) = line.split_once(" = ")?;
            let (shape, rest) = shape(rest)?;
            Some((name.trim_start_matches('%').to_owned(), shape.to_owned(), rest.trim().to_owned()))
        };
        let mut parameters = Vec::new();
        let mut result = String::new();
        for (name, shape, rest) in entry.into_iter().filter_map(assigned) {
            let number = rest
                .strip_prefix("parameter(")
                .and_then(|rest| rest.split(')').next()?.parse::<usize>().ok());
            if let Some(number) = number {
                parameters.push((number, name.clone(), shape.clone()));
            }
            if name.starts_with("ROOT ") {
                result = shape;
            }
        }
        parameters.sort();
        let parameters = parameters.into_iter().map(|(_, name, shape)| (name, shape)).collect();
        let file = is_replaced.then(|| source.file.clone());
        Self { name: name.to_owned(), file, parameters, result }
    }
}

/// A shape at the start of a text, and the rest: `f32[$a,$b]`, or a tuple in parentheses.
fn shape(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_i32;
    let end = text.find(|c: char| {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        depth == 0 && c == ' '
    })?;
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_entry() {
        let text = "HloModule m\nf {\n  ROOT x = f32[] parameter(0)\n}\nENTRY m {\n  %b = (s32[], $t[$n]) parameter(1)\n  \
                    a = f32[$n,$m] parameter(0)\n  ROOT r = (f32[$n], s32[]) tuple(a, b)\n}\n";
        let source = TemplateSource { file: "m.hlo".to_owned(), text: text.to_owned() };
        let info = TemplateInfo::of("m", &source, true);
        let parameter = |name: &str, shape: &str| (name.to_owned(), shape.to_owned());
        assert_eq!(info.parameters, [parameter("a", "f32[$n,$m]"), parameter("b", "(s32[], $t[$n])")]);
        assert_eq!((info.result.as_str(), info.file.as_deref()), ("(f32[$n], s32[])", Some("m.hlo")));
    }
}
