use std::{f32::consts::PI, fmt};

use serde::Serialize;

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): the rotation angles of each position.
///
/// Every `theta` and `factor` is at least one, and `high_freq_factor` is above `low_freq_factor`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "rope_type")]
pub enum Rope {
    /// Angles of the paper.
    Default {
        /// The base of the frequencies.
        theta: f64,
    },
    /// Positions divided by a factor.
    Linear {
        /// The base of the frequencies.
        theta: f64,
        /// Divisor of positions.
        factor: f64,
    },
    /// Llama 3.1's scaling: the frequencies of long wavelengths are divided by a factor, those of short ones are unchanged,
    /// and those between are interpolated (`rope_type` "llama3" of transformers' `modeling_rope_utils.py`).
    Llama3 {
        /// The base of the frequencies.
        theta: f64,
        /// Divisor of the lowest frequencies.
        factor: f64,
        /// Wavelengths above `original_max_position_embeddings / low_freq_factor` count as long.
        low_freq_factor: f64,
        /// Wavelengths below `original_max_position_embeddings / high_freq_factor` count as short.
        high_freq_factor: f64,
        /// Positions of the pre-training.
        original_max_position_embeddings: usize,
    },
}

impl Rope {
    /// Rotation angle of each pair of features from one position to the next, in radians, highest first;
    /// `head_dim / 2` values, each exactly a float32.
    ///
    /// Every operation is rounded to float32, as in transformers: the smooth part of Llama 3.1's scaling
    /// would otherwise differ from the model's training by more than its last bits.
    pub fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let plain = |theta: f64| {
            (0..head_dim / 2).map(move |pair| {
                let exponent = (2 * pair) as f32 / head_dim as f32;
                1.0 / theta.powf(f64::from(exponent)) as f32
            })
        };
        match *self {
            Self::Default { theta } => plain(theta).map(f64::from).collect(),
            Self::Linear { theta, factor } => plain(theta).map(|f| f64::from(f / factor as f32)).collect(),
            Self::Llama3 {
                theta,
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => {
                let length = original_max_position_embeddings as f64;
                let band = Band { factor, low_freq_factor, high_freq_factor, length };
                plain(theta).map(|frequency| f64::from(band.scale(frequency))).collect()
            }
        }
    }
}

impl fmt::Display for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default { theta } => write!(f, "default with theta {theta}"),
            Self::Linear { theta, factor } => write!(f, "linear with theta {theta}, factor {factor}"),
            Self::Llama3 {
                theta,
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => write!(
                f,
                "llama3 with theta {theta}, factor {factor}, frequency factors {low_freq_factor} and \
                 {high_freq_factor}, {original_max_position_embeddings} original positions"
            ),
        }
    }
}

/// The constants of Llama 3.1's scaling.
struct Band {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    length: f64,
}

impl Band {
    fn scale(&self, frequency: f32) -> f32 {
        let factor = self.factor as f32;
        let wavelength = 2.0 * PI / frequency;
        if wavelength > (self.length / self.low_freq_factor) as f32 {
            return frequency / factor;
        }
        if wavelength < (self.length / self.high_freq_factor) as f32 {
            return frequency;
        }
        let width = (self.high_freq_factor - self.low_freq_factor) as f32;
        let smooth = (self.length as f32 / wavelength - self.low_freq_factor as f32) / width;
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect` holds pairs of index and value from transformers 5.24 (`LlamaRotaryEmbedding.inv_freq`).
    fn check(rope: &Rope, head_dim: usize, expect: &[(usize, f64)]) {
        let got = rope.inverse_frequencies(head_dim);
        assert_eq!(got.len(), head_dim / 2);
        for &(i, value) in expect {
            assert_eq!(got[i], value, "{i}");
        }
    }

    fn llama3(factor: f64, original_max_position_embeddings: usize) -> Rope {
        Rope::Llama3 {
            theta: 500_000.0,
            factor,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings,
        }
    }

    #[test]
    fn plain_frequencies_fall_geometrically() {
        check(
            &Rope::Default { theta: 100_000.0 },
            64,
            &[(0, 1.0), (1, 0.6978305578231812), (16, 0.003162277862429619), (31, 1.4330126759887207e-05)],
        );
        check(
            &Rope::Default { theta: 10_000.0 },
            80,
            &[(0, 1.0), (1, 0.7943282127380371), (16, 0.025118863210082054), (39, 0.00012589251855388284)],
        );
    }

    #[test]
    fn a_linear_factor_divides_all() {
        check(
            &Rope::Linear { theta: 10_000.0, factor: 2.5 },
            64,
            &[
                (0, 0.4000000059604645),
                (1, 0.2999576926231384),
                (16, 0.003999999724328518),
                (31, 5.3340860176831484e-05),
            ],
        );
    }

    #[test]
    fn llama3_scaling_keeps_short_waves_divides_long_ones_and_blends_between() {
        check(
            &llama3(8.0, 8192),
            128,
            &[
                (0, 1.0),
                (1, 0.8146172165870667),
                (20, 0.016560440883040428),
                (28, 0.0032114461064338684),
                (30, 0.0013718936825171113),
                (32, 0.0005248460220173001),
                (34, 0.0001785077911335975),
                (36, 7.784655463183299e-05),
                (40, 3.428102354519069e-05),
                (63, 3.068925877869333e-07),
            ],
        );
        check(
            &llama3(32.0, 8192),
            64,
            &[
                (0, 1.0),
                (1, 0.663601279258728),
                (14, 0.0032114461064338684),
                (15, 0.0012905480107292533),
                (16, 0.000429556705057621),
                (17, 9.708286233944818e-05),
                (18, 1.9461638657958247e-05),
                (31, 9.418306490260875e-08),
            ],
        );
        check(
            &llama3(8.0, 64),
            16,
            &[
                (0, 1.0),
                (1, 0.07940301299095154),
                (2, 0.004700753837823868),
                (3, 0.0009115831344388425),
                (4, 0.00017677668074611574),
                (5, 3.428102354519069e-05),
                (6, 6.647869668086059e-06),
                (7, 1.289173155782919e-06),
            ],
        );
    }
}
