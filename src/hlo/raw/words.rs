//! Words that attributes have for values, in the order of the numbers that protos have for them.

/// Names of `ConvolutionKind`.
pub(super) const CONVOLUTION_KINDS: &[&str] = &["unset", "fprop", "dgrad", "wgrad"];

/// Names of `PrecisionConfig.Algorithm`.
pub(super) const DOT_ALGORITHMS: &[&str] = &[
    "unset",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];

/// Algorithms of random bits: names of `RandomAlgorithm`.
pub(super) const RNG_ALGORITHMS: &[&str] = &["rng_default", "rng_three_fry", "rng_philox"];

/// Names of `CustomCallApiVersion`.
pub(super) const API_VERSIONS: &[&str] = &[
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
];

/// Names of `RandomDistribution`.
pub(super) const DISTRIBUTIONS: &[&str] = &["rng_invalid", "rng_uniform", "rng_normal"];

/// Names of `FftType`.
pub(super) const FFT_TYPES: &[&str] = &["FFT", "IFFT", "RFFT", "IRFFT"];

/// Names of `PaddingType`.
pub(super) const PADDING_TYPES: &[&str] = &["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"];

/// Names of `CustomCallSchedule`.
pub(super) const SCHEDULES: &[&str] = &["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"];

/// Names of `TriangularSolveOptions.Transpose`.
pub(super) const TRANSPOSES: &[&str] = &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
