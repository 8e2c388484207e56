//! Messages inside of instructions, from the values of attributes.

use super::{
    messages_data::*,
    messages_instr::{HloInstructionProto, SliceDimensions},
    to_sharding,
    value::Value,
};
use crate::hlo::raw::cursor::Parsed;

/// `{key="value",other={...}}`
pub(super) fn frontend_attributes(value: &mut Value<'_>) -> Parsed<FrontendAttributes> {
    let pairs = value.items(b'{', b'}', |value| {
        let key = value.word("a key")?;
        value.expect(b'=')?;
        let at = *value;
        let text = String::from_utf8(value.config()?).map_err(|_| at.error("UTF-8"))?;
        Ok((key.to_owned(), text))
    })?;
    Ok(FrontendAttributes { map: pairs.into_iter().collect() })
}

/// `{visualizing_index=1,memory=0.75}`
pub(super) fn statistics(value: &mut Value<'_>) -> Parsed<StatisticsViz> {
    let mut found = StatisticsViz::default();
    let statistics = value.items(b'{', b'}', |value| {
        let name = value.word("the name of a statistic")?;
        value.expect(b'=')?;
        if name == "visualizing_index" {
            found.stat_index_to_visualize = value.int()?;
            return Ok(None);
        }
        Ok(Some(Statistic { stat_name: name.to_owned(), stat_val: value.number()? }))
    })?;
    found.statistics = statistics.into_iter().flatten().collect();
    Ok(found)
}

/// `{size=3x3 stride=2x2 pad=1_1x1_1}`
pub(super) fn window(value: &mut Value<'_>) -> Parsed<Window> {
    let mut dims: Vec<WindowDimension> = Vec::new();
    let one =
        WindowDimension { size: 1, stride: 1, window_dilation: 1, base_dilation: 1, ..Default::default() };
    value.items(b'{', b'}', |value| {
        let name = value.word("a part of a window")?;
        value.expect(b'=')?;
        value.0.skip_blank()?;
        let at = *value;
        let mut index = 0;
        loop {
            let numbers = value.separated(b'_')?;
            if dims.len() <= index {
                dims.push(one.clone());
            }
            let dim = &mut dims[index];
            match (name, &numbers[..]) {
                ("size", &[size]) => dim.size = size,
                ("stride", &[stride]) => dim.stride = stride,
                ("pad", &[low, high]) => (dim.padding_low, dim.padding_high) = (low, high),
                ("lhs_dilate", &[dilation]) => dim.base_dilation = dilation,
                ("rhs_dilate", &[dilation]) => dim.window_dilation = dilation,
                ("rhs_reversal", &[reversal]) => dim.window_reversal = reversal != 0,
                _ => return Err(at.error("a part of a window")),
            }
            index += 1;
            if value.0.peek() != b'x' {
                return Ok(());
            }
            value.0.advance(1);
        }
    })?;
    Ok(Window { dimensions: dims })
}

/// `0_1x-2_0_1`
pub(super) fn padding(value: &mut Value<'_>) -> Parsed<PaddingConfig> {
    let mut dimensions = Vec::new();
    loop {
        let at = *value;
        let numbers = value.separated(b'_')?;
        let (&[low, high] | &[low, high, _]) = &numbers[..] else { return Err(at.error("padding")) };
        let interior_padding = numbers.get(2).copied().unwrap_or(0);
        dimensions.push(PaddingConfigDimension {
            edge_padding_low: low,
            edge_padding_high: high,
            interior_padding,
        });
        if value.0.peek() != b'x' {
            return Ok(PaddingConfig { dimensions });
        }
        value.0.advance(1);
    }
}

/// `[0:4]` or `[2:8:2]`
pub(super) fn range(value: &mut Value<'_>) -> Parsed<SliceDimensions> {
    value.expect(b'[')?;
    let start = value.int()?;
    value.expect(b':')?;
    let limit = value.int()?;
    let stride = if value.accept(b':')? { value.int()? } else { 1 };
    value.expect(b']')?;
    Ok(SliceDimensions { start, limit, stride })
}

/// `b01f_01io->b01f`
pub(super) fn dim_labels(value: &mut Value<'_>) -> Parsed<ConvolutionDimensionNumbers> {
    value.0.skip_blank()?;
    let at = *value;
    let wrong = || at.error("labels such as `b01f_01io->b01f`");
    let labels = |value: &mut Value<'_>| {
        let start = value.0.at();
        while value.0.peek().is_ascii_alphanumeric() || value.0.peek() == b'?' {
            value.0.advance(1);
        }
        value.0.bytes(start..value.0.at()).to_vec()
    };
    let position = |labels: &[u8], label: u8| {
        let found = labels.iter().position(|&other| other == label);
        found.map(|position| position as i64).ok_or_else(wrong)
    };
    let spatial = |labels: &[u8]| {
        let count = labels.iter().filter(|label| label.is_ascii_digit()).count();
        (b'0'..).take(count).map(|label| position(labels, label)).collect::<Parsed<Vec<i64>>>()
    };
    let input = labels(value);
    value.expect(b'_')?;
    let kernel = labels(value);
    value.0.expect_arrow()?;
    let output = labels(value);
    Ok(ConvolutionDimensionNumbers {
        input_batch_dimension: position(&input, b'b')?,
        input_feature_dimension: position(&input, b'f')?,
        input_spatial_dimensions: spatial(&input)?,
        kernel_input_feature_dimension: position(&kernel, b'i')?,
        kernel_output_feature_dimension: position(&kernel, b'o')?,
        kernel_spatial_dimensions: spatial(&kernel)?,
        output_batch_dimension: position(&output, b'b')?,
        output_feature_dimension: position(&output, b'f')?,
        output_spatial_dimensions: spatial(&output)?,
    })
}

/// `{kind="sharding", entry={...}, exit={...}}`
pub(super) fn domain(instr: &mut HloInstructionProto, value: &mut Value<'_>) -> Parsed<()> {
    value.expect(b'{')?;
    while !value.accept(b'}')? {
        let at = *value;
        let field = value.word("a part of a domain")?;
        value.expect(b'=')?;
        match field {
            "kind" => {
                let at = *value;
                if value.string()? != b"sharding" {
                    return Err(at.error("the kind \"sharding\""));
                }
            }
            // The message calls the sharding of the operand exit.
            "entry" => {
                instr.domain_exit_sharding = Some(Box::new(to_sharding::sharding(value, None)?));
            }
            "exit" => {
                instr.domain_entry_sharding = Some(Box::new(to_sharding::sharding(value, None)?));
            }
            _ => return Err(at.error("a part of a domain")),
        }
        value.accept(b',')?;
    }
    Ok(())
}

/// `{mode=highest}` or `{tolerance={atol=0,rtol=0,ulps=2}}`
pub(super) fn accuracy(value: &mut Value<'_>) -> Parsed<ResultAccuracy> {
    value.expect(b'{')?;
    let at = *value;
    let field = value.word("`mode` or `tolerance`")?;
    value.expect(b'=')?;
    let found = match field {
        "mode" => ResultAccuracy { mode: Some(value.one_of(&["default", "highest"])?), tolerance: None },
        "tolerance" => {
            let mut tolerance = Tolerance::default();
            value.items(b'{', b'}', |value| {
                let at = *value;
                let field = value.word("a tolerance")?;
                value.expect(b'=')?;
                match field {
                    "atol" => tolerance.atol = value.number()?,
                    "rtol" => tolerance.rtol = value.number()?,
                    "ulps" => tolerance.ulps = value.int()?,
                    _ => return Err(at.error("`atol`, `rtol` or `ulps`")),
                }
                Ok(())
            })?;
            ResultAccuracy { mode: None, tolerance: Some(tolerance) }
        }
        _ => return Err(at.error("`mode` or `tolerance`")),
    };
    value.expect(b'}')?;
    Ok(found)
}

/// `{rhs={sparsity=1x2 dimension=0 stride=1}}`
pub(super) fn sparsity(value: &mut Value<'_>) -> Parsed<SparsityConfig> {
    let mut found = SparsityConfig::default();
    value.items(b'{', b'}', |value| {
        let at = *value;
        let side = value.word("`lhs` or `rhs`")?;
        value.expect(b'=')?;
        let mut config = TensorSparsityConfig::default();
        value.items(b'{', b'}', |value| {
            let at = *value;
            let field = value.word("a field of sparsity")?;
            value.expect(b'=')?;
            match (field, &value.separated(b'x')?[..]) {
                ("sparsity", &[nonzero, block]) => {
                    (config.num_non_zero, config.block_size) = (nonzero, block)
                }
                ("dimension", &[dimension]) => config.dimension = dimension,
                ("stride", &[stride]) => config.stride = stride,
                _ => return Err(at.error("a field of sparsity")),
            }
            Ok(())
        })?;
        match side {
            "lhs" => found.lhs = Some(config),
            "rhs" => found.rhs = Some(config),
            _ => return Err(at.error("`lhs` or `rhs`")),
        }
        Ok(())
    })?;
    Ok(found)
}
