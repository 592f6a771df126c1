// SPDX-License-Identifier: ISC

import java.io.DataInputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.Security;
import java.security.cert.X509Certificate;
import java.util.Arrays;
import java.util.Random;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * Uses TLS of Java, which changes its keys and asks for ours after some data: see test_peers.py. A
 * client's arguments: the port, the seed, rounds. A server's: "server", PostgreSQL's port, the file
 * with certificate and key.
 */
public class Peer {
	static byte[] message(String kind, byte[] body) {
		return ByteBuffer.allocate(kind.length() + 4 + body.length)
		    .put(kind.getBytes(StandardCharsets.US_ASCII)).putInt(body.length + 4).put(body).array();
	}

	/** Reads up to ReadyForQuery, and returns the row's first value. */
	static byte[] answer(DataInputStream in) throws Exception {
		byte[] row = null;
		while (true) {
			int kind = in.readUnsignedByte();
			byte[] body = new byte[in.readInt() - 4];
			in.readFully(body);
			if (kind == 'D')
				row = Arrays.copyOfRange(body, 6, body.length);
			if (kind == 'E')
				throw new Exception(new String(body, StandardCharsets.US_ASCII));
			if (kind == 'Z')
				return row;
		}
	}

	/** PostgreSQL's answers go out in pieces of any size. */
	static void copy(InputStream in, OutputStream out, Random chance) throws Exception {
		byte[] part = new byte[40000];
		int count;
		while ((count = in.read(part, 0, chance == null ? part.length : 1 + chance.nextInt(part.length))) >= 0)
			out.write(part, 0, count);
	}

	/** Gives PostgreSQL TLS for one connection. */
	static void carry(Socket plain, SSLContext context, int port) throws Exception {
		new DataInputStream(plain.getInputStream()).readFully(new byte[8]);
		plain.getOutputStream().write('S');
		SSLSocket socket = (SSLSocket)context.getSocketFactory().createSocket(plain, (InputStream)null, true);
		Socket server = new Socket("127.0.0.1", port);
		new Thread(() -> {
			try {
				copy(server.getInputStream(), socket.getOutputStream(), new Random(port));
				socket.close();
			} catch (Exception end) { // the client was the first to end it
			}
		}).start();
		copy(socket.getInputStream(), server.getOutputStream(), null); // no exception is a close_notify
		System.out.println("closed");
		server.close();
	}

	static void serve(int port, String file) throws Exception {
		KeyStore store = KeyStore.getInstance("PKCS12");
		store.load(new FileInputStream(file), "secret".toCharArray());
		KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
		keys.init(store, "secret".toCharArray());
		SSLContext context = SSLContext.getInstance("TLSv1.3");
		context.init(keys.getKeyManagers(), null, null);
		ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
		System.out.println(listener.getLocalPort());
		while (true) {
			Socket plain = listener.accept();
			new Thread(() -> {
				try {
					carry(plain, context, port);
				} catch (Exception problem) {
					System.out.println("failed " + problem);
				}
			}).start();
		}
	}

	public static void main(String[] args) throws Exception {
		Security.setProperty("jdk.tls.keyLimits", "AES/GCM/NoPadding KeyUpdate 2^18");
		if (args[0].equals("server"))
			serve(Integer.parseInt(args[1]), args[2]);
		Random chance = new Random(Integer.parseInt(args[1]));
		TrustManager all = new X509TrustManager() {
			public void checkClientTrusted(X509Certificate[] chain, String type) {}
			public void checkServerTrusted(X509Certificate[] chain, String type) {}
			public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
		};
		SSLContext context = SSLContext.getInstance("TLSv1.3");
		context.init(null, new TrustManager[] {all}, null);
		Socket plain = new Socket("127.0.0.1", Integer.parseInt(args[0]));
		plain.getOutputStream().write(new byte[] {0, 0, 0, 8, 4, (byte)210, 22, 47});
		if (plain.getInputStream().read() != 'S')
			throw new Exception("declined");
		SSLSocket socket = (SSLSocket)context.getSocketFactory().createSocket(plain, "localhost", 1, true);
		socket.setEnabledProtocols(new String[] {"TLSv1.3"});
		OutputStream out = socket.getOutputStream();
		DataInputStream in = new DataInputStream(socket.getInputStream());
		out.write(message("", "\0\3\0\0user\0alice\0database\0app\0\0".getBytes(StandardCharsets.US_ASCII)));
		answer(in);
		for (int i = 0; i < Integer.parseInt(args[2]); i++) {
			int[] sizes = {0, 1, 16383, 16384, 16385, chance.nextInt(100000)};
			byte[] text = new byte[sizes[chance.nextInt(6)]];
			Arrays.fill(text, (byte)('a' + chance.nextInt(26)));
			byte[] query = message("Q", ("SELECT '" + new String(text) + "'\0").getBytes(StandardCharsets.US_ASCII));
			for (int at = 0; at < query.length;) {
				int count = 1 + chance.nextInt(query.length - at);
				out.write(query, at, count);
				at += count;
			}
			byte[] got = answer(in);
			if (!Arrays.equals(got, text))
				throw new Exception("round " + i + ": another text");
		}
		socket.shutdownOutput();
		if (in.read() != -1)
			throw new Exception("more after the end");
		System.out.println("ok");
	}
}
