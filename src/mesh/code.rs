use std::fmt;

use crate::base::{Diagnostic, Location, named_enum};

named_enum! {
    /// What kind of problem a mesh config has. Scripts may rely on the names.
    pub enum MeshCode {
        /// The file is not TOML.
        Syntax = "syntax";
        /// A table has a duplicate key.
        DuplicateKey = "duplicate-key";
        /// No table or key has this name.
        UnknownKey = "unknown-key";
        /// A value is not of the kind that its key takes.
        WrongValue = "wrong-value";
        /// Files extend one another in a circle.
        ExtendsCircle = "extends-circle";
        /// An extended file cannot be read.
        ExtendsMissing = "extends-missing";
        /// No `[mesh]` anywhere.
        NoMesh = "no-mesh";
        /// The name of an axis is not an identifier, or means something else.
        AxisName = "axis-name";
        /// The size of an axis is neither a positive number nor `"rest"`.
        AxisSize = "axis-size";
        /// Two axes are to take what the others leave.
        TwoRest = "two-rest";
        /// The sizes of the other axes do not divide the number of devices.
        RestIndivisible = "rest-indivisible";
        /// An axis takes what is left of an unknown number of devices.
        RestUnknown = "rest-unknown";
        /// The sizes do not multiply to the number of devices.
        DeviceCount = "device-count";
        /// A rule names an axis that the mesh lacks.
        UnknownAxis = "unknown-axis";
        /// A rule is about a dimension that no tensor can have.
        UnknownDim = "unknown-dim";
        /// A rule names an axis twice.
        RepeatedAxis = "repeated-axis";
        /// A rule splits the rank of the adapters.
        SplitRank = "split-rank";
        /// A rule splits the stack of layers.
        SplitLayers = "split-layers";
        /// A rule is about a dimension that none of its tensors has.
        UnusedRule = "unused-rule";
        /// An override matches no parameter.
        OverrideUnmatched = "override-unmatched";
        /// No parameter that an override matches has the dimension.
        OverrideDim = "override-dim";
        /// An axis is to split two dimensions of one tensor.
        AxisConflict = "axis-conflict";
        /// A dimension is not a multiple of what it is split into.
        Indivisible = "indivisible";
        /// A batch is not a multiple of what it is split into.
        BatchIndivisible = "batch-indivisible";
        /// An axis splits no tensor.
        UnusedAxis = "unused-axis";
    }
}

impl fmt::Display for MeshCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl MeshCode {
    /// A problem of this kind, as an error.
    pub(super) fn error(self, location: Location, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(location, message).with_code(self.name())
    }
}
