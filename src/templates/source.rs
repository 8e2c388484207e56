/// The text of a template, and the file that it is from.
#[derive(Clone, Debug)]
pub(super) struct TemplateSource {
    pub file: String,
    pub text: String,
}
