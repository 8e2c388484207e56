use std::fmt;

use super::{AxisConfig, AxisSize, MeshCode, MeshConfig};
use crate::base::{Diagnostic, Diagnostics, Setting};

/// Devices in a grid with named axes, in row-major order: the last axis is the fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    axes: Vec<MeshAxis>,
}

/// An axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshAxis {
    /// An identifier; no two axes share it.
    pub name: String,
    /// At least one.
    pub size: usize,
}

impl Mesh {
    /// The axes, slowest first.
    pub fn axes(&self) -> &[MeshAxis] {
        &self.axes
    }

    /// The axis with this name.
    pub fn axis(&self, name: &str) -> Option<&MeshAxis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// How many devices it has; a mesh without axes has one.
    pub fn devices(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Names and sizes of the axes of more than one device, slowest first.
    pub fn split_axes(&self) -> Vec<(&str, usize)> {
        let axes = self.axes.iter().filter(|axis| axis.size > 1);
        axes.map(|axis| (axis.name.as_str(), axis.size)).collect()
    }

    /// The number of shards that these axes make; axes that the mesh lacks make one.
    pub fn num_shards(&self, axes: &[String]) -> usize {
        axes.iter().filter_map(|name| self.axis(name)).map(|axis| axis.size).product()
    }

    /// The mesh of a config on `devices` devices; `None` takes as many as the sizes say. A mesh of the wrong number of
    /// devices is a problem and still a mesh; one whose sizes are unknown is none.
    pub(super) fn resolve(
        config: &MeshConfig,
        devices: Option<usize>,
        problems: &mut Diagnostics,
    ) -> Option<Self> {
        if problems.iter().any(|problem| {
            [MeshCode::AxisName, MeshCode::AxisSize].iter().any(|code| problem.code == Some(code.name()))
        }) {
            return None;
        }
        let rests: Vec<&AxisConfig> = config.axes.iter().filter(|axis| axis.size == AxisSize::Rest).collect();
        let mut known = config.axes.iter().map(|axis| match axis.size {
            AxisSize::Fixed(size) => size,
            AxisSize::Rest => 1,
        });
        let product = known.try_fold(1_usize, usize::checked_mul).filter(|&product| product <= MAX_DEVICES);
        let Some(product) = product else {
            let message = format!("expected at most {MAX_DEVICES} devices, found more");
            problems.push(MeshCode::DeviceCount.error(config.location.clone(), message));
            return None;
        };
        let rest = match (&rests[..], devices) {
            ([], _) => 1,
            ([first, second, ..], _) => {
                let location = second.location.clone();
                let AxisConfig { name, location: at, .. } = first;
                let message =
                    format!("only one axis can have the size \"rest\", and `{name}` has it: {}", line(at));
                problems
                    .push(MeshCode::TwoRest.error(location, message).with_hint("give one of them a number"));
                return None;
            }
            ([axis], None) => {
                let message = "\"rest\" is unknown without the number of devices";
                let hint =
                    format!("set a target, such as {}, or write a number", Setting::Target.with("cpu:8"));
                problems.push(MeshCode::RestUnknown.error(axis.location.clone(), message).with_hint(hint));
                return None;
            }
            ([axis], Some(devices)) if !devices.is_multiple_of(product) => {
                let message = format!("the other axes do not divide {devices} devices: {product}");
                let sizes = alternatives(divisors(devices, devices));
                let hint = format!("let the other sizes multiply to {sizes}");
                problems
                    .push(MeshCode::RestIndivisible.error(axis.location.clone(), message).with_hint(hint));
                return None;
            }
            ([_], Some(devices)) => devices / product,
        };
        let size = |axis: &AxisConfig| match axis.size {
            AxisSize::Fixed(size) => size,
            AxisSize::Rest => rest,
        };
        let axes = config.axes.iter().map(|axis| MeshAxis { name: axis.name.clone(), size: size(axis) });
        let mesh = Self { axes: axes.collect() };
        if let Some(devices) = devices.filter(|&devices| devices != mesh.devices()) {
            problems.push(mesh.wrong_count(config, devices));
        }
        Some(mesh)
    }

    fn wrong_count(&self, config: &MeshConfig, devices: usize) -> Diagnostic {
        let all = self.devices();
        let message = format!("expected {devices} devices, as the target has, found {all}: {self}");
        let fixes = self.axes.iter().filter_map(|axis| {
            let others = all / axis.size;
            devices.is_multiple_of(others).then(|| format!("`{} = {}`", axis.name, devices / others))
        });
        let fixes: Vec<String> = fixes.collect();
        let hint = match fixes.is_empty() {
            false => format!("write {}, or give a target of {all}", fixes.join(" or ")),
            true => format!("give a target of {all}, or other sizes"),
        };
        MeshCode::DeviceCount.error(config.location.clone(), message).with_hint(hint)
    }
}

impl fmt::Display for Mesh {
    /// `fsdp 4 x tensor 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.axes.is_empty() {
            return f.write_str("no axes");
        }
        for (at, MeshAxis { name, size }) in self.axes.iter().enumerate() {
            let times = if at == 0 { "" } else { " x " };
            write!(f, "{times}{name} {size}")?;
        }
        Ok(())
    }
}

const MAX_DEVICES: usize = 1 << 20;

/// What divides `number`, up to `most`, in ascending order.
pub(super) fn divisors(number: usize, most: usize) -> Vec<usize> {
    (1..=most.min(number)).filter(|&divisor| number.is_multiple_of(divisor)).collect()
}

/// `1, 2 or 4`.
pub(super) fn alternatives(numbers: Vec<usize>) -> String {
    let mut texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    let last = texts.pop().unwrap_or_default();
    if texts.is_empty() { last } else { format!("{} or {last}", texts.join(", ")) }
}

/// A location without its item.
pub(super) fn line(location: &crate::base::Location) -> crate::base::Location {
    crate::base::Location { item: None, ..location.clone() }
}
