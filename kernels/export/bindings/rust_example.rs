//! Loads @name@.weights, runs the model once and prints the first numbers of each output.
//!
//!     make && ./example ../@name@.weights [threads [input.bin ... [output.bin ...]]]
//!
//! input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
//! output.bin: where an output goes, in the same form.
mod @name@;

use std::error::Error;

/// The elements of a file, or zeros.
macro_rules! argument {
    ($args:expr, $place:expr, $type:ty, $size:expr) => {
        match $args.get($place) {
            None => vec![<$type>::default(); $size],
            Some(path) => std::fs::read(path)
                .map_err(|e| format!("{path}: {e}"))?
                .chunks_exact(std::mem::size_of::<$type>())
                .map(|c| <$type>::from_ne_bytes(c.try_into().unwrap()))
                .collect(),
        }
    };
}

macro_rules! result {
    ($args:expr, $place:expr, $name:expr, $values:expr) => {
        let first: Vec<String> = $values.iter().take(10).map(|v| v.to_string()).collect();
        println!("{}: {}", $name, first.join(" "));
        if let Some(path) = $args.get($place) {
            let bytes: Vec<u8> = $values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            std::fs::write(path, bytes).map_err(|e| format!("{path}: {e}"))?;
        }
    };
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let path = args.first().map_or("../@name@.weights", String::as_str);
    let threads = args.get(1).map_or(Ok(1), |t| t.parse())?;
    let model = @name@::Model::load(path, threads)?;
@READ@
    let @PATTERN@ = model.run(@REFERENCES@)?;
@WRITE@
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(e) = run(&args) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
