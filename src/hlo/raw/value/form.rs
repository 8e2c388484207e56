//! The forms of attribute values.

use super::{
    aliases::{aliases, donors, signature},
    fields::{dictionary, domain, origin, result_accuracy, sparsity, statistics},
    metadata::metadata,
    parts::{boolean, element, float, int, list, one_of, one_of_any_case, string},
    sharding::{replica_groups, sharding},
    window::{dashed, dim_labels, window},
};
use crate::hlo::raw::{
    cursor::{Cursor, Parsed},
    shape::ShapeReader,
    words::{DOT_ALGORITHMS, RNG_ALGORITHMS},
};

/// The form of an attribute's value. Each is checked when it is read, and kept as its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `true`
    Bool,
    /// `{true,false}` or `true`
    Bools,
    /// `3`
    Int,
    /// `1e-05`
    Float,
    /// `"text"`
    Text,
    /// `"text"` or a JSON object
    TextOrJson,
    /// `{0,1}`
    Ints,
    /// `{{0,1},{2,3}}`
    IntLists,
    /// `{{0,1},{2,3}}` or `[2,4]<=[8]`
    ReplicaGroups,
    /// `%name`, or `{...}` with instructions
    Computation,
    /// `{%a, %b}`
    Computations,
    /// `{%a, %b}`, instructions of the same computation
    Instructions,
    /// A word, one of these
    OneOf(&'static [&'static str]),
    /// A word, one of these in letters of any case
    OneOfAnyCase(&'static [&'static str]),
    /// An algorithm of a dot or of random bits
    Algorithm,
    /// `{default,highest}`
    Precisions,
    /// `{[0:4], [2:8:2]}`
    SliceRanges,
    /// `0_1x-2_0_1`
    Padding,
    /// `{size=2x2 stride=1x2 pad=0_1x1_1}`
    Window,
    /// `b01f_01io->b01f`
    DimLabels,
    /// `f32[2]`
    Shape,
    /// `{f32[2]{0}, s32[]}`
    Shapes,
    /// `f32[2] {1, 2}`
    Literal,
    /// `{devices=[2,1]<=[2]}`
    Sharding,
    /// `{key="value",other={...}}`
    Dictionary,
    /// `{op_name="jit(f)/add" source_line=3}`
    Metadata,
    /// `{{"x"}}`
    Origin,
    /// `{visualizing_index=0,flops=2}`
    Statistics,
    /// `{mode=highest}`
    ResultAccuracy,
    /// `{lhs={sparsity=2x4}}`
    Sparsity,
    /// `{kind="sharding", entry={manual}, exit={replicated}}`
    Domain,
    /// `{{0}: (1, {}, may-alias)}`
    Aliases,
    /// `{(0, {}), (1, {0})}`
    Donors,
    /// `{(f32[2]{0})->f32[2]{0}}`
    Signature,
    /// `{...}`, whose content only other tools need
    Group,
}

/// Skips a value of this form.
pub(crate) fn skip(form: Form, cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    match form {
        Form::Bool => boolean(cursor),
        Form::Bools if cursor.peek() == b'{' => list(cursor, boolean).map(drop),
        Form::Bools => boolean(cursor),
        Form::Int => int(cursor),
        Form::Float => float(cursor),
        Form::Text => string(cursor),
        Form::TextOrJson if cursor.peek() == b'{' => cursor.skip_group(),
        Form::TextOrJson => string(cursor),
        Form::Ints => list(cursor, int).map(drop),
        Form::IntLists => list(cursor, int_list).map(drop),
        Form::ReplicaGroups => replica_groups(cursor),
        Form::OneOf(words) => one_of(cursor, words),
        Form::OneOfAnyCase(words) => one_of_any_case(cursor, words),
        Form::Algorithm => one_of(cursor, &[DOT_ALGORITHMS, RNG_ALGORITHMS].concat()),
        Form::Precisions => list(cursor, precision).map(drop),
        Form::SliceRanges => list(cursor, range).map(drop),
        Form::Padding => dashed(cursor, "padding such as `0_1x-2_0`", &[2, 3]).map(drop),
        Form::Window => window(cursor),
        Form::DimLabels => dim_labels(cursor),
        Form::Shape => shape(cursor),
        Form::Shapes => list(cursor, shape).map(drop),
        Form::Literal => literal(cursor),
        Form::Sharding => sharding(cursor),
        Form::Dictionary => dictionary(cursor),
        Form::Metadata => metadata(cursor),
        Form::Origin => origin(cursor),
        Form::Statistics => statistics(cursor),
        Form::ResultAccuracy => result_accuracy(cursor),
        Form::Sparsity => sparsity(cursor),
        Form::Domain => domain(cursor),
        Form::Aliases => aliases(cursor),
        Form::Donors => donors(cursor),
        Form::Signature => signature(cursor),
        Form::Group | Form::Computation | Form::Computations | Form::Instructions => group(cursor),
    }
}

/// `slice_sizes` of a gather is one list, that of a collective-permute a list of lists.
fn int_list(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() == b'{' { list(cursor, int).map(drop) } else { int(cursor) }
}

fn precision(cursor: &mut Cursor<'_>) -> Parsed<()> {
    one_of_any_case(cursor, &["default", "high", "highest", "packed_nibble"])
}

/// `[0:4]` or `[2:8:2]`
fn range(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'[')?;
    int(cursor)?;
    cursor.expect(b':')?;
    int(cursor)?;
    if cursor.accept(b':')? {
        int(cursor)?;
    }
    cursor.expect(b']')
}

fn shape(cursor: &mut Cursor<'_>) -> Parsed<()> {
    ShapeReader::new().read(cursor).map(drop)
}

/// `f32[2] {1, 2}`, or several in parentheses
fn literal(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.skip_blank()?;
    if cursor.peek() == b'(' {
        return cursor.skip_group();
    }
    shape(cursor)?;
    cursor.skip_blank()?;
    match cursor.peek() {
        b'{' | b'(' => cursor.skip_group(),
        _ => element(cursor),
    }
}

fn group(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.peek() == b'{' { cursor.skip_group() } else { Err(cursor.unexpected("`{`")) }
}
