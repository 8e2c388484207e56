//! The groups of devices of collectives.

use super::access;

/// Maximum number of devices of all groups together.
const MAX_DEVICES: usize = 1 << 20;

/// Groups of devices between which a collective communicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaGroups {
    /// `{}`: all devices are one group.
    All,
    /// Groups, each with its devices in order: `{{0,1},{2,3}}`, or an iota such as `[2,2]<=[4]`.
    Listed(Vec<Vec<i64>>),
    /// Axes of a mesh: `mesh['x'=2,'y'=4] {'y'}`.
    Axes {
        /// Names and sizes of all axes.
        mesh: Vec<(String, i64)>,
        /// The axes along which it communicates.
        axes: Vec<String>,
    },
}

impl ReplicaGroups {
    /// The number of devices in each group; `None` for [`ReplicaGroups::All`], whose number the module has.
    pub fn group_size(&self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::Listed(groups) => groups.first().map(|group| group.len() as u64),
            Self::Axes { mesh, axes } => {
                let size = |axis: &String| mesh.iter().find(|(name, _)| name == axis).map(|&(_, size)| size);
                let product =
                    axes.iter().map(size).try_fold(1_i64, |product, size| product.checked_mul(size?));
                product.and_then(|product| u64::try_from(product).ok())
            }
        }
    }
}

/// The groups in an attribute.
pub(super) fn parse(text: &str) -> Option<ReplicaGroups> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("mesh") {
        return axes(rest);
    }
    if text.starts_with('[') {
        return iota(text).map(ReplicaGroups::Listed);
    }
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    if inner.is_empty() {
        return Some(ReplicaGroups::All);
    }
    let groups = inner.split_inclusive('}').map(|group| access::ints(group.trim_start_matches([',', ' '])));
    Some(ReplicaGroups::Listed(groups.collect::<Option<_>>()?))
}

/// `[2,4]<=[4,2]T(1,0)`: the numbers from zero up, laid out in the dimensions on the right, transposed, and cut into rows.
fn iota(text: &str) -> Option<Vec<Vec<i64>>> {
    let list =
        |text: &str| -> Option<Vec<usize>> { text.split(',').map(|size| size.trim().parse().ok()).collect() };
    let (shape, rest) = text.strip_prefix('[')?.split_once(']')?;
    let (dims, rest) = rest.trim().strip_prefix("<=")?.trim().strip_prefix('[')?.split_once(']')?;
    let (shape, dims) = (list(shape)?, list(dims)?);
    let order = match rest.trim().strip_prefix("T(") {
        Some(order) => list(order.strip_suffix(')')?)?,
        None => (0..dims.len()).collect(),
    };
    let devices = dims.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if devices > MAX_DEVICES || devices == 0 || sorted != (0..dims.len()).collect::<Vec<_>>() {
        return None;
    }
    let strides: Vec<usize> = (0..dims.len()).map(|dim| dims[dim + 1..].iter().product()).collect();
    let numbers = (0..devices).map(|mut position| {
        let mut number = 0;
        for &dim in order.iter().rev() {
            number += position % dims[dim] * strides[dim];
            position /= dims[dim];
        }
        number as i64
    });
    let numbers: Vec<i64> = numbers.collect();
    let size = *shape.last()?;
    let total = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))?;
    (total == devices).then(|| numbers.chunks(size).map(<[i64]>::to_vec).collect())
}

/// `['x'=2,'y'=4], device_ids=(...) {'y'}`
fn axes(text: &str) -> Option<ReplicaGroups> {
    let unquoted = |name: &str| name.trim().trim_matches(['\'', '"']).to_owned();
    let (mesh, rest) = text.trim().strip_prefix('[')?.split_once(']')?;
    let axis = |axis: &str| {
        let (name, size) = axis.split_once('=')?;
        Some((unquoted(name), size.trim().parse().ok()?))
    };
    let mesh: Vec<(String, i64)> = mesh.split(',').map(axis).collect::<Option<_>>()?;
    let (_, axes) = rest.strip_suffix('}')?.rsplit_once('{')?;
    let axes: Vec<String> = axes.split(',').map(unquoted).collect();
    let known = axes.iter().all(|axis| mesh.iter().any(|(name, _)| name == axis));
    known.then_some(ReplicaGroups::Axes { mesh, axes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&[i64]]) {
        let expect = expect.iter().map(|group| group.to_vec()).collect();
        assert_eq!(parse(text), Some(ReplicaGroups::Listed(expect)));
    }

    #[test]
    fn lists_and_iotas() {
        check("{{0,1}, {2,3}}", &[&[0, 1], &[2, 3]]);
        check("[2,2]<=[4]", &[&[0, 1], &[2, 3]]);
        check("[2,2]<=[2,2]T(1,0)", &[&[0, 2], &[1, 3]]);
        check("[4,2]<=[2,2,2]T(1,2,0)", &[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        assert_eq!(parse("{}"), Some(ReplicaGroups::All));
        for invalid in ["[2,2]<=[5]", "[2,2]<=[2,2]T(0,0)", "[1048577]<=[1048577]", "{0,1}x", "[0]<=[0]"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn axes_of_a_mesh() {
        let groups = parse("mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}").unwrap();
        assert_eq!(groups.group_size(), Some(4));
        assert_eq!(parse("mesh['x'=2] {'z'}"), None);
    }
}
