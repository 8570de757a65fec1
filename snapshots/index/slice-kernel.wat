;; The loops of slice-kernel.ts, 64 bytes at a time. Lengths of bitmaps are multiples of 64 bytes.
;; test/snapshots/index/slice-kernel.test.ts assembles this and compares it with the bytes in slice-kernel.ts.
(module
  (memory (export "memory") 5)

  ;; Clears in the bitmap from $result to $end the bits of values below $bound, or, where $flip is -1 and not 0, of the
  ;; others. There are $count slices, $stride bytes apart.
  (func (export "keepFrom")
    (param $result i32) (param $end i32)
    (param $slices i32) (param $stride i32) (param $count i32)
    (param $bound i32) (param $flip i32)
    (local $at i32) (local $bits i32) (local $left i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128) (local $flips v128)
    (local.set $flips (i32x4.splat (local.get $flip)))
    (loop $blocks
      (if
        (v128.any_true (v128.or
          (v128.or (v128.load (local.get $result)) (v128.load offset=16 (local.get $result)))
          (v128.or (v128.load offset=32 (local.get $result)) (v128.load offset=48 (local.get $result)))))
        (then
          (local.set $a (v128.const i32x4 -1 -1 -1 -1))
          (local.set $b (local.get $a))
          (local.set $c (local.get $a))
          (local.set $d (local.get $a))
          (local.set $at (local.get $slices))
          (local.set $bits (local.get $bound))
          (local.set $left (local.get $count))
          (loop $slice
            (if (i32.and (local.get $bits) (i32.const 1))
              (then
                (local.set $a (v128.and (local.get $a) (v128.load (local.get $at))))
                (local.set $b (v128.and (local.get $b) (v128.load offset=16 (local.get $at))))
                (local.set $c (v128.and (local.get $c) (v128.load offset=32 (local.get $at))))
                (local.set $d (v128.and (local.get $d) (v128.load offset=48 (local.get $at)))))
              (else
                (local.set $a (v128.or (local.get $a) (v128.load (local.get $at))))
                (local.set $b (v128.or (local.get $b) (v128.load offset=16 (local.get $at))))
                (local.set $c (v128.or (local.get $c) (v128.load offset=32 (local.get $at))))
                (local.set $d (v128.or (local.get $d) (v128.load offset=48 (local.get $at))))))
            (local.set $at (i32.add (local.get $at) (local.get $stride)))
            (local.set $bits (i32.shr_u (local.get $bits) (i32.const 1)))
            (br_if $slice (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
          (v128.store (local.get $result)
            (v128.and (v128.load (local.get $result)) (v128.xor (local.get $a) (local.get $flips))))
          (v128.store offset=16 (local.get $result)
            (v128.and (v128.load offset=16 (local.get $result)) (v128.xor (local.get $b) (local.get $flips))))
          (v128.store offset=32 (local.get $result)
            (v128.and (v128.load offset=32 (local.get $result)) (v128.xor (local.get $c) (local.get $flips))))
          (v128.store offset=48 (local.get $result)
            (v128.and (v128.load offset=48 (local.get $result)) (v128.xor (local.get $d) (local.get $flips))))))
      (local.set $slices (i32.add (local.get $slices) (i32.const 64)))
      (br_if $blocks
        (i32.lt_u (local.tee $result (i32.add (local.get $result) (i32.const 64))) (local.get $end)))))

  ;; The number of bits set in both of two bitmaps, from $a to $end and from $b. Sums of 16 bits hold those of 65,536.
  (func (export "countBoth") (param $a i32) (param $b i32) (param $end i32) (result i32)
    (local $sums v128)
    (loop $blocks
      (local.set $sums (i16x8.add (local.get $sums) (i16x8.extadd_pairwise_i8x16_u (i8x16.add
        (i8x16.add
          (i8x16.popcnt (v128.and (v128.load (local.get $a)) (v128.load (local.get $b))))
          (i8x16.popcnt (v128.and (v128.load offset=16 (local.get $a)) (v128.load offset=16 (local.get $b)))))
        (i8x16.add
          (i8x16.popcnt (v128.and (v128.load offset=32 (local.get $a)) (v128.load offset=32 (local.get $b))))
          (i8x16.popcnt (v128.and (v128.load offset=48 (local.get $a)) (v128.load offset=48 (local.get $b)))))))))
      (local.set $b (i32.add (local.get $b) (i32.const 64)))
      (br_if $blocks (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 64))) (local.get $end))))
    (local.set $sums (i32x4.extadd_pairwise_i16x8_u (local.get $sums)))
    (i32.add
      (i32.add (i32x4.extract_lane 0 (local.get $sums)) (i32x4.extract_lane 1 (local.get $sums)))
      (i32.add (i32x4.extract_lane 2 (local.get $sums)) (i32x4.extract_lane 3 (local.get $sums))))))
