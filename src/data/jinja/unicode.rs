//! Python's character classes.

use std::sync::LazyLock;

use regex::Regex;

fn class(pattern: &str) -> Regex {
    Regex::new(&format!("^[{pattern}]$")).expect("a constant pattern")
}

fn matches(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// `str.isspace` of one character.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `str.isalpha` of one character.
pub(super) fn is_alpha(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| class(r"\p{L}"));
    if c.is_ascii() { c.is_ascii_alphabetic() } else { matches(&CLASS, c) }
}

/// `str.isdecimal` of one character.
pub(super) fn is_decimal(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| class(r"\p{Nd}"));
    if c.is_ascii() { c.is_ascii_digit() } else { matches(&CLASS, c) }
}

/// `str.isdigit` of one character.
pub(super) fn is_digit(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| {
        class(
            "\u{b2}\u{b3}\u{b9}\u{1369}-\u{1371}\u{19da}\u{2070}\u{2074}-\u{2079}\u{2080}-\u{2089}\u{2460}-\u{2468}\
             \u{2474}-\u{247c}\u{2488}-\u{2490}\u{24ea}\u{24f5}-\u{24fd}\u{24ff}\u{2776}-\u{277e}\u{2780}-\u{2788}\
             \u{278a}-\u{2792}\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}",
        )
    });
    is_decimal(c) || !c.is_ascii() && matches(&CLASS, c)
}

/// `str.isnumeric` of one character.
pub(super) fn is_numeric(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| {
        class(
            "\\p{N}\u{3405}\u{3483}\u{382a}\u{3b4d}\u{4e00}\u{4e03}\u{4e07}\u{4e09}\u{4e5d}\u{4e8c}\u{4e94}\u{4e96}\u{4ebf}-\u{4ec0}\u{4edf}\u{4ee8}\u{4f0d}\u{4f70}\u{5104}\u{5146}\u{5169}\u{516b}\u{516d}\u{5341}-\u{5345}\u{534c}\u{53c1}-\u{53c4}\u{56db}\u{58f1}\u{58f9}\u{5e7a}\u{5efe}-\u{5eff}\u{5f0c}-\u{5f0e}\u{5f10}\u{62fe}\u{634c}\u{67d2}\u{6f06}\u{7396}\u{767e}\u{8086}\u{842c}\u{8cae}\u{8cb3}\u{8d30}\u{9621}\u{9646}\u{964c}\u{9678}\u{96f6}\u{f96b}\u{f973}\u{f978}\u{f9b2}\u{f9d1}\u{f9d3}\u{f9fd}\u{20001}\u{20064}\u{200e2}\u{20121}\u{2092a}\u{20983}\u{2098c}\u{2099c}\u{20aea}\u{20afd}\u{20b19}\u{22390}\u{22998}\u{23b1b}\u{2626d}\u{2f890}",
        )
    });
    if c.is_ascii() { c.is_ascii_digit() } else { matches(&CLASS, c) }
}

/// `str.isalnum` of one character.
pub(super) fn is_alphanumeric(c: char) -> bool {
    is_alpha(c) || is_numeric(c)
}

/// `\w` of Python's `re`.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || is_alphanumeric(c)
}

/// `str.isidentifier`.
pub(super) fn is_identifier(text: &str) -> bool {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[\p{XID_Start}_]\p{XID_Continue}*$").expect("a constant pattern"));
    NAME.is_match(text)
}

/// `str.isprintable` of one character.
pub(super) fn is_printable(c: char) -> bool {
    static HIDDEN: LazyLock<Regex> = LazyLock::new(|| class(r"\p{C}\p{Z}"));
    if c.is_ascii() { matches!(c, ' '..='~') } else { !matches(&HIDDEN, c) }
}

/// Whether a character has upper, lower or title case.
pub(super) fn is_cased(c: char) -> bool {
    is_lower(c) || is_upper(c) || is_title(c)
}

/// `str.islower` of one character.
pub(super) fn is_lower(c: char) -> bool {
    c.is_lowercase()
}

/// `str.isupper` of one character.
pub(super) fn is_upper(c: char) -> bool {
    c.is_uppercase()
}

/// Whether a character is of the category of titlecase letters.
pub(super) fn is_title(c: char) -> bool {
    static CLASS: LazyLock<Regex> = LazyLock::new(|| class(r"\p{Lt}"));
    !c.is_ascii() && matches(&CLASS, c)
}

/// The title case of a character.
pub(super) fn push_title(c: char, out: &mut String) {
    let title = match c {
        'Ǆ' | 'ǅ' | 'ǆ' => 'ǅ',
        'Ǉ' | 'ǈ' | 'ǉ' => 'ǈ',
        'Ǌ' | 'ǋ' | 'ǌ' => 'ǋ',
        'Ǳ' | 'ǲ' | 'ǳ' => 'ǲ',
        // Georgian letters and Greek ones with an iota below have an upper case, but are their own title case.
        'ა'..='ჺ' | 'ჽ'..='ჿ' | 'ᾈ'..='ᾏ' | 'ᾘ'..='ᾟ' | 'ᾨ'..='ᾯ' | 'ᾼ' | 'ῌ' | 'ῼ' => {
            c
        }
        'ᾀ'..='ᾇ' | 'ᾐ'..='ᾗ' | 'ᾠ'..='ᾧ' => char::from_u32(c as u32 + 8).unwrap_or(c),
        'ᾳ' => 'ᾼ',
        'ῃ' => 'ῌ',
        'ῳ' => 'ῼ',
        'ᾲ' | 'ᾴ' | 'ᾷ' | 'ῂ' | 'ῄ' | 'ῇ' | 'ῲ' | 'ῴ' | 'ῷ' => {
            let mut upper = c.to_uppercase();
            out.extend(upper.by_ref().take(1));
            out.extend(upper.filter(|c| *c != 'Ι'));
            return out.push('\u{345}');
        }
        'ß' | 'ﬀ'..='ﬆ' | 'և' | 'ﬓ'..='ﬗ' => {
            let mut upper = c.to_uppercase();
            out.extend(upper.by_ref().take(1));
            return out.extend(upper.flat_map(char::to_lowercase));
        }
        _ => return out.extend(c.to_uppercase()),
    };
    out.push(title);
}
