//! The values of attributes that passes compute with, from their text, whose form was checked when it was read.

/// Integers in braces: `{0,1}`.
pub(super) fn ints(text: &str) -> Option<Vec<i64>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    if inner.is_empty() {
        return Some(vec![]);
    }
    inner.split(',').map(|int| int.trim().parse().ok()).collect()
}

/// One dimension of a window, as a convolution or a reduce-window moves it over its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowDim {
    /// Elements of the window.
    pub size: i64,
    /// Distance between two positions of the window.
    pub stride: i64,
    /// Padding in front of the input, and behind it; negative numbers cut.
    pub padding: (i64, i64),
    /// Distance between two elements of the input; larger than one where the input is spread.
    pub base_dilation: i64,
    /// Distance between two elements of the window.
    pub window_dilation: i64,
}

impl WindowDim {
    /// The number of positions of the window over an input of this size; `None` if the window has no meaning.
    pub fn positions(self, input: u64) -> Option<u64> {
        let spread = |size: i64, dilation: i64| {
            if size == 0 { Some(0) } else { (size - 1).checked_mul(dilation)?.checked_add(1) }
        };
        let (low, high) = self.padding;
        let input =
            spread(i64::try_from(input).ok()?, self.base_dilation)?.checked_add(low)?.checked_add(high)?;
        let size = spread(self.size, self.window_dilation)?;
        if self.stride < 1 || self.size < 0 {
            return None;
        }
        Some(if input < size { 0 } else { ((input - size) / self.stride + 1) as u64 })
    }
}

/// The dimensions of a window: `{size=2x2 stride=1x2 pad=0_1x1_1 rhs_reversal=1x1}`.
pub(super) fn window(text: &str) -> Option<Vec<WindowDim>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let parts: Vec<(&str, &str)> =
        inner.split_ascii_whitespace().map(|part| part.split_once('=')).collect::<Option<_>>()?;
    let rank = parts.first().map_or(0, |(_, values)| values.split('x').count());
    let one = WindowDim { size: 1, stride: 1, padding: (0, 0), base_dilation: 1, window_dilation: 1 };
    let mut dims = vec![one; rank];
    for (name, values) in parts {
        let values: Vec<&str> = values.split('x').collect();
        if values.len() != rank {
            return None;
        }
        for (dim, value) in dims.iter_mut().zip(values) {
            match name {
                "size" => dim.size = value.parse().ok()?,
                "stride" => dim.stride = value.parse().ok()?,
                "lhs_dilate" => dim.base_dilation = value.parse().ok()?,
                "rhs_dilate" => dim.window_dilation = value.parse().ok()?,
                "pad" => {
                    let (low, high) = value.split_once('_')?;
                    dim.padding = (low.parse().ok()?, high.parse().ok()?);
                }
                _ => {}
            }
        }
    }
    Some(dims)
}

/// Where the dimensions of a convolution lie in its arrays: `b01f_01io->b01f`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionDims {
    /// Positions of batch, feature and spatial dimensions in the input.
    pub input: ArrayDims,
    /// Positions of input features, output features and spatial dimensions in the kernel.
    pub kernel: ArrayDims,
    /// Positions of batch, feature and spatial dimensions in the result.
    pub output: ArrayDims,
}

/// Positions of the dimensions of one array of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayDims {
    /// Batch dimension; input features of a kernel.
    pub batch: usize,
    /// Feature dimension; output features of a kernel.
    pub feature: usize,
    /// Spatial dimensions.
    pub spatial: Vec<usize>,
}

/// The labels of a convolution.
pub(super) fn dim_labels(text: &str) -> Option<ConvolutionDims> {
    let (inputs, output) = text.split_once("->")?;
    let (input, kernel) = inputs.split_once('_')?;
    let array = |labels: &str, batch: char, feature: char| {
        let spatial = labels.chars().filter(char::is_ascii_digit).count();
        let spatial = (0..spatial).map(|dim| labels.find(char::from_digit(u32::try_from(dim).ok()?, 10)?));
        Some(ArrayDims {
            batch: labels.find(batch)?,
            feature: labels.find(feature)?,
            spatial: spatial.collect::<Option<_>>()?,
        })
    };
    Some(ConvolutionDims {
        input: array(input, 'b', 'f')?,
        kernel: array(kernel, 'i', 'o')?,
        output: array(output, 'b', 'f')?,
    })
}

/// Low, high and interior padding of each dimension: `0_1x-2_0_1`.
pub(super) fn padding(text: &str) -> Option<Vec<[i64; 3]>> {
    let dim = |dim: &str| {
        let mut parts = dim.split('_').map(|part| part.parse::<i64>().ok());
        Some([parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?])
    };
    text.split('x').map(dim).collect()
}

/// A field of metadata such as `{op_name="jit(f)/add" source_line=3}`: words with blanks between them, values in quotes or not.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text.trim().strip_prefix('{')?;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = end_of_string(quoted)?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => {
                let end = after.find([' ', ',', '}'])?;
                after.split_at(end)
            }
        };
        if key.trim() == name {
            return Some(value);
        }
        rest = next;
    }
}

/// The position of the double quote that ends a string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_defaults() {
        let dims = window("{size=3x2 pad=1_1x0_-1 rhs_dilate=2x1}").unwrap();
        assert_eq!(dims[0].positions(8), Some(6), "(8 + 2 - 5) / 1 + 1");
        assert_eq!(dims[1].positions(8), Some(6), "(8 - 1 - 2) / 1 + 1");
        assert_eq!(window("{}"), Some(vec![]));
        assert_eq!(window("{size=3x2 pad=1_1}"), None);
    }

    #[test]
    fn labels_are_positions() {
        let dims = dim_labels("bf01_oi01->f0b1").unwrap();
        assert_eq!(dims.input, ArrayDims { batch: 0, feature: 1, spatial: vec![2, 3] });
        assert_eq!(dims.kernel, ArrayDims { batch: 1, feature: 0, spatial: vec![2, 3] });
        assert_eq!(dims.output, ArrayDims { batch: 2, feature: 0, spatial: vec![1, 3] });
    }

    #[test]
    fn fields_of_metadata() {
        let text = r#"{op_type="a" op_name="jit(f)/\"x\" y=2", source_line=7 stack_frame_id=12}"#;
        assert_eq!(field(text, "op_name"), Some(r#"jit(f)/\"x\" y=2"#));
        assert_eq!(field(text, "source_line"), Some("7"));
        assert_eq!(field(text, "stack_frame_id"), Some("12"));
        assert_eq!(field(text, "y"), None);
    }

    #[test]
    fn lists_and_padding() {
        assert_eq!(ints("{ 0, 12}"), Some(vec![0, 12]));
        assert_eq!(ints("{}"), Some(vec![]));
        assert_eq!(padding("0_1x-2_0_1"), Some(vec![[0, 1, 0], [-2, 0, 1]]));
    }
}
