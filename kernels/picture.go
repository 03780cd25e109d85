package kernels

// ConvShape is the geometry of a 2D convolution over NHWC pictures.
type ConvShape struct {
	In, Out                  int // channels
	KH, KW                   int
	Stride                   int
	Top, Left, Bottom, Right int // zero padding
}

// OutSize is the height and width of the result for an input of h x w.
func (s ConvShape) OutSize(h, w int) (int, int) {
	return (h+s.Top+s.Bottom-s.KH)/s.Stride + 1, (w+s.Left+s.Right-s.KW)/s.Stride + 1
}

// Conv is Y = epilogue(X * W): X is [N, H, W, In], Y is [N, OH, OW, Out].
//
// The product's order of k is dy, then dx, then the input channel: a product of
// rows KW·In long for each dy, added over dy. In bf16 math each dy's row is
// zero-padded to 32. The epilogue is that of Gemm: Bias, Act, Residual.
type Conv struct {
	Shape    ConvShape
	Math     Math
	X, Y     Span
	N, H, W  int     // of X
	Weight   Span    // [Out, KH, KW, In] (the hub's [Out, In, KH, KW] is rearranged once by Copy)
	Packed   *Packed // in place of Weight
	Bias     Span    // optional, [Out]
	Act      UnaryOp
	Residual Span // optional, the shape of Y; it may be Y
}

// ConvBackward takes DY [N, OH, OW, Out] to DX (written) and adds to DWeight (f32
// [Out, KH, KW, In]) and DBias (f32 [Out]) sample by sample in order. Each
// destination is optional. Act, Bias and Residual of the forward are not its business.
type ConvBackward struct {
	Conv
	DY, DX         Span
	DWeight, DBias Span
}

// Depthwise is a convolution of f32 in which each channel has a kernel of its own: X is [N, H, W, C] with its padding
// in it, Weight [KH, KW, C], Y [N, OH, OW, C]. A number is one chain of fused products from +0 over the places, rows
// first, and then the Bias. Y is not X.
type Depthwise struct {
	X, Y                 Span
	N, H, W, C           int // of X
	KH, KW               int
	StrideY, StrideX     int
	DilationY, DilationX int
	Weight               Span
	Bias                 Span // optional, [C]
}

// OutSize is the height and width of Y.
func (a *Depthwise) OutSize() (int, int) {
	return (a.H-(a.KH-1)*a.DilationY-1)/a.StrideY + 1, (a.W-(a.KW-1)*a.DilationX-1)/a.StrideX + 1
}

// A Depthwiser is a backend of host memory with depthwise convolutions.
type Depthwiser interface {
	Depthwise(*Depthwise)
}

// Upsample repeats each pixel of X [N, H, W, C] Factor x Factor times.
type Upsample struct {
	X, Y       Span
	N, H, W, C int
	Factor     int
}

// UpsampleBackward adds each Factor x Factor block of DY into one pixel of DX, rows first.
type UpsampleBackward struct {
	DY, DX     Span
	N, H, W, C int // of DX
	Factor     int
}
