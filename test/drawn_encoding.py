"""An encoding with a sampler: a loss on drawn rows of a table, for tests of what trainings do
with samplers."""

DRAWN = """
pos.encoding @drawn {
  %rows = arith.constant 10 : i32
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  %kind = pos.option "kind" : i32 = "even" of ["even", "odd"]
  %most = pos.option "most" : i32 = 9 : i32
  %scale = pos.option "scale" : f32 = 0.1 : f32
  %zero = arith.constant 0 : i32
  %digits = pos.input "digits" : tensor<3x2xi32> range(%zero, %most)
  %table = pos.param "table" : tensor<?x?xf32> dims(%rows, %one) init constant(%half) scope model
  func.func @auxiliary_loss(%w: tensor<?x?xf32> {pos.role = "table"},
                            %i: tensor<3x2xi32> {pos.role = "digits"}) -> tensor<f32> {
    %x = nn.embedding %w, %i : (tensor<?x?xf32>, tensor<3x2xi32>) -> tensor<3x2x?xf32>
    %l = nn.sum %x over [0, 1, 2] : (tensor<3x2x?xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
"""
SAMPLER = """
import torch

def sample(inputs, options, extents, seed, step):
    generator = torch.Generator().manual_seed(1000 * seed + step)
    return {n: torch.randint(0, 10, s, generator=generator, dtype=torch.int32)
            for n, s in inputs.items()}
"""


def write(folder, sampler=SAMPLER):
    """`drawn` in a folder of the search path."""
    (folder / "drawn").mkdir(parents=True)
    (folder / "drawn" / "drawn.mlir").write_text(DRAWN)
    (folder / "drawn" / "sampler.py").write_text(sampler)
