//! Names of settings and commands in library messages; an application replaces them with its own spelling.

use std::fmt::{self, Display};

use super::named_enum::named_enum;

named_enum! {
    /// A setting of the application: a key of a run file, a flag of its command line.
    pub enum Setting {
        Accumulate = "accumulate";
        Adapter = "adapter";
        Alpha = "alpha";
        AlphaPattern = "alpha-pattern";
        Attention = "attention";
        AttentionBlock = "attention-block";
        Base = "base";
        Batch = "batch";
        Beta1 = "beta1";
        Beta2 = "beta2";
        Bundle = "bundle";
        Computation = "computation";
        Data = "data";
        Dtype = "dtype";
        Eps = "eps";
        Expected = "expected";
        Format = "format";
        HeldOut = "held-out";
        LossChunk = "loss-chunk";
        Lr = "lr";
        MaxGradNorm = "max-grad-norm";
        MaxNewTokens = "max-new-tokens";
        MemoryFraction = "memory-fraction";
        Mesh = "mesh";
        MicroBatches = "micro-batches";
        Model = "model";
        Module = "module";
        Offline = "offline";
        OffloadWeights = "offload-weights";
        Out = "out";
        Pack = "pack";
        Package = "PACKAGE";
        Param = "PARAM";
        Plugin = "plugin";
        Preallocate = "preallocate";
        Program = "program";
        Prompt = "prompt";
        Question = "question";
        Rank = "rank";
        RankPattern = "rank-pattern";
        Recompile = "recompile";
        Remat = "remat";
        RematEvery = "remat-every";
        Resume = "resume";
        Rslora = "rslora";
        SaveEvery = "save-every";
        Schedule = "schedule";
        Seed = "seed";
        Seq = "seq";
        Stage = "stage";
        Steps = "steps";
        Target = "target";
        Targets = "targets";
        Templates = "templates";
        Timeout = "timeout";
        Warmup = "warmup";
        WeightDecay = "weight-decay";
    }
}

impl Setting {
    /// Names the setting with a value.
    pub fn with(self, value: impl Display) -> String {
        format!("setting `{} = {value}`", self.name())
    }
}

/// ``setting `seq` ``, which an application replaces with its own spelling.
impl Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting `{}`", self.name())
    }
}

/// Names a command of the application with settings: ``command `compile target=v5e:2x4` ``.
pub fn command(words: &str, settings: &[(Setting, &str)]) -> String {
    let settings = settings.iter().map(|(setting, value)| format!(" {}={value}", setting.name()));
    format!("command `{words}{}`", settings.collect::<String>())
}
