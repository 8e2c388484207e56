//! The bytes that an array occupies, with the padding of its tiles.

use crate::hlo::raw::{Array, Layout};

/// Bytes of an array in memory: the elements, and the padding of `T(8,128)`. Dimensions without a bound count as empty; a size
/// beyond 64 bits is `u64::MAX`.
pub fn padded_bytes(array: &Array) -> u64 {
    let dense = || {
        let bounded = array.dims.iter().all(|dim| dim.bound().is_some());
        array.dense_bytes().unwrap_or(if bounded { u64::MAX } else { 0 })
    };
    let Some(layout) = array.layout.as_ref().filter(|layout| !layout.tiles.is_empty()) else {
        return dense();
    };
    let sizes = layout.minor_to_major.iter().rev().map(|&dim| array.dims.get(dim as usize)?.bound());
    let Some(mut sizes) = sizes.collect::<Option<Vec<u64>>>() else { return dense() };
    for tile in &layout.tiles {
        apply(&mut sizes, tile);
    }
    let bits = u64::try_from(layout.element_bits).ok().filter(|&bits| bits > 0);
    let bits = bits.unwrap_or(array.element.bits());
    sizes.iter().fold(bits, |product, &size| product.saturating_mul(size)).div_ceil(8)
}

/// Cuts the most minor dimensions, which are last, into tiles: the number of tiles of each takes its place, and the sizes of a
/// tile follow. The next tile cuts those.
fn apply(sizes: &mut Vec<u64>, tile: &[i64]) {
    while sizes.len() < tile.len() {
        sizes.insert(0, 1);
    }
    let cut = sizes.split_off(sizes.len() - tile.len());
    let (mut counts, mut inner) = (Vec::new(), Vec::new());
    let mut combined = 1_u64;
    for (size, &tile) in cut.into_iter().zip(tile) {
        let size = size.saturating_mul(combined);
        combined = 1;
        if tile == Layout::COMBINE {
            combined = size;
            continue;
        }
        let tile = u64::try_from(tile).ok().filter(|&tile| tile > 0).unwrap_or(1);
        counts.push(size.div_ceil(tile));
        inner.push(tile);
    }
    if combined != 1 {
        counts.push(combined);
    }
    sizes.extend(counts);
    sizes.extend(inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::{Shape, parse};

    #[track_caller]
    fn check(shape: &str, expect: u64) {
        let text = format!("ENTRY e {{ ROOT x = {shape} parameter(0) }}");
        let module = parse(text, "shape.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let parameter = module.instructions(module.entry()).next().unwrap();
        let Shape::Array(array) = module.shapes().get(parameter.shape()) else { panic!("{shape}") };
        assert_eq!(padded_bytes(array), expect, "{shape}");
    }

    #[test]
    fn tiles_pad_the_minor_dimensions() {
        check("f32[3,5]", 60);
        check("f32[3,5]{1,0:T(8,128)}", 8 * 128 * 4);
        check("bf16[512,8]{0,1:T(8,128)(2,1)}", 512 * 8 * 2);
        check("bf16[2,2,16,8]{2,3,1,0:T(8,128)(2,1)}", 4 * 8 * 128 * 2);
        check("bf16[2,8]{1,0:T(2,128)(2,1)}", 2 * 128 * 2);
        check("f32[]{:T(128)}", 512);
        check("f32[10]{0:T(1024)}", 4096);
        check("bf16[7,100]{1,0:T(8,128)(4,1)}", 8 * 128 * 2);
    }

    #[test]
    fn elements_below_a_byte_are_packed_where_the_layout_says_so() {
        check("s4[3]{0:E(4)}", 2);
        check("s4[16,128]{1,0:T(8,128)E(4)}", 1024);
        check("u8[3]{0:E(4)}", 2);
    }

    #[test]
    fn sizes_without_a_bound_and_sizes_beyond_64_bits() {
        check("f32[<=8,4]", 128);
        check("f32[?,4]", 0);
        check("f32[4294967296,4294967296]", u64::MAX);
    }
}
